#include "base/span_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "base/simd.h"

namespace tandem {
namespace {

// Sizes around the widths of the vector units, and one that takes many rounds.
constexpr std::size_t kSizes[] = {0, 1, 7, 8, 15, 16, 17, 31, 33, 64, 1000};

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  Rng rng({seed});
  std::vector<float> values(count);
  for (float& value : values) value = rng.normal();
  return values;
}

TEST(SpanMath, CopiesIntoMemoryThatIsThere) {
  const std::vector<float> from = {1, 2, 3};
  std::vector<float> into(5);
  const float* before = into.data();
  copy(from, into);
  EXPECT_EQ(into, from);
  EXPECT_EQ(into.data(), before);
  copy(std::span(from).first(0), into);
  EXPECT_TRUE(into.empty());
}

TEST(SpanMath, AddsElementByElement) {
  for (std::size_t size : kSizes) {
    const auto a = random_values(size, 1);
    const auto b = random_values(size, 2);
    auto sum = a;
    add(sum, b);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << size;
  }
}

TEST(SpanMath, ScalesEveryElement) {
  for (std::size_t size : kSizes) {
    const auto a = random_values(size, 1);
    auto scaled = a;
    scale(scaled, 0.3F);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(scaled[i], a[i] * 0.3F) << size;
  }
}

// The order that sum_of_squares promises, written plainly.
double sum_in_fixed_order(const std::vector<float>& values) {
  std::vector<double> lanes(kSimdLanes, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    lanes[i % kSimdLanes] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

TEST(SpanMath, SumOfSquaresHasTheSameBitsOnEveryMachine) {
  for (std::size_t size : kSizes) {
    const auto values = random_values(size, 3);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sum_of_squares(values)),
              std::bit_cast<std::uint64_t>(sum_in_fixed_order(values)))
        << size;
  }
}

TEST(SpanMath, FindsTheFirstValueThatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t size : kSizes) {
    auto values = random_values(size, 4);
    if (size > 0) values[0] = std::numeric_limits<float>::max();
    if (size > 1) values[1] = -std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(first_not_finite(values), size);
    for (float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (std::size_t at = 0; at < size; at += 5) {
        auto spoilt = values;
        spoilt[at] = bad;
        spoilt[size - 1] = bad;
        ASSERT_EQ(first_not_finite(spoilt), at);
      }
    }
  }
}

TEST(SpanMathDeathTest, AddingSpansOfDifferentSizesIsABug) {
  std::vector<float> two(2);
  std::vector<float> three(3);
  EXPECT_DEATH(add(two, three), "check failed");
}

}  // namespace
}  // namespace tandem
