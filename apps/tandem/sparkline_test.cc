#include "sparkline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::cli {
namespace {

TEST(Sparkline, GoesFromLowestToHighest) {
  const double values[] = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(sparkline(values, 40, Charset::kUtf8), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(sparkline(values, 40, Charset::kAscii), "#*+=~-._");
}

TEST(Sparkline, FitsItsWidth) {
  std::vector<double> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  EXPECT_EQ(sparkline(values, 10, Charset::kAscii).size(), 10U);
}

TEST(Sparkline, SurvivesFlatEmptyAndInfiniteCurves) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sparkline({}, 10, Charset::kAscii), "");
  const double flat[] = {2, 2, 2};
  EXPECT_EQ(sparkline(flat, 10, Charset::kAscii), "___");
  const double wild[] = {nan, 1, HUGE_VAL, 2};
  EXPECT_EQ(sparkline(wild, 10, Charset::kAscii), "_#");
}

TEST(Curve, KeepsItsShapeInBoundedMemory) {
  Curve curve;
  for (int i = 0; i < 100'000; ++i) curve.add(i);
  const auto values = curve.values();
  EXPECT_LE(values.size(), 1024U);
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_LT(values.front(), 1000);
  EXPECT_GT(values.back(), 99'000);
}

}  // namespace
}  // namespace tandem::cli
