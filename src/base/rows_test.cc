#include "base/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem {
namespace {

std::vector<float> row(std::uint64_t seed, std::uint64_t number, float scale = 0.5F) {
  std::vector<float> weights(16, 9.0F);
  begin_row(seed, number, scale, weights);
  return weights;
}

TEST(Rows, BeginByTableAndRow) {
  EXPECT_EQ(row(1, 2), row(1, 2));
  EXPECT_NE(row(1, 2), row(1, 3));
  EXPECT_NE(row(1, 2), row(2, 2));
  EXPECT_EQ(table_seed(1, "user.weight"), table_seed(1, "user.weight"));
  EXPECT_NE(table_seed(1, "user.weight"), table_seed(1, "item.weight"));
  EXPECT_NE(table_seed(1, "user.weight"), table_seed(2, "user.weight"));
}

TEST(Rows, StayInsideTheScale) {
  const std::vector<float> weights = row(7, 1 << 20, 0.25F);
  EXPECT_TRUE(std::all_of(weights.begin(), weights.end(),
                          [](float weight) { return weight >= -0.25F && weight < 0.25F; }));
  EXPECT_GT(*std::max_element(weights.begin(), weights.end()), 0);
  EXPECT_LT(*std::min_element(weights.begin(), weights.end()), 0);
}

TEST(Rows, AreZeroWithoutAScaleAndNeverMinusZero) {
  for (const float weight : row(1, 2, 0)) {
    EXPECT_EQ(weight, 0);
    EXPECT_FALSE(std::signbit(weight));
  }
}

}  // namespace
}  // namespace tandem
