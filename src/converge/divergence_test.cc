#include "converge/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tandem::converge {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> noise(std::size_t count, unsigned seed, float width) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-width, width);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

TEST(MeanKl, IsTheSumOfTheDefinition) {
  // Probabilities 1/4, 3/4 and 1/2, 1/2; then two equal rows.
  const float a = std::log(3.0F);
  const std::vector<float> p = {0, a, 1, 2}, q = {5, 5, 1, 2};
  const double first = 0.25 * std::log(0.5) + 0.75 * std::log(1.5);
  EXPECT_NEAR(mean_kl(p, q, 2), first / 2, 1e-7);
  EXPECT_NEAR(mean_kl(q, p, 2), (0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3)) / 2, 1e-7);
}

TEST(MeanKl, IsExactlyZeroForEqualPredictions) {
  const std::vector<float> p = noise(1000, 1, 30);
  EXPECT_EQ(mean_kl(p, p, 10), 0);
  EXPECT_EQ(mean_kl({}, {}, 10), 0);
}

TEST(MeanKl, DoesNotSeeWhatSoftmaxDoesNotSee) {
  const std::vector<float> p = noise(100, 2, 4);
  std::vector<float> shifted = p;
  for (float& logit : shifted) logit += 8;
  EXPECT_NEAR(mean_kl(p, shifted, 10), 0, 1e-9);
}

TEST(MeanKl, IsNeverNegative) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::vector<float> p = noise(10, seed, 10);
    std::vector<float> q = p;
    q[seed % 10] += 1e-6F;
    EXPECT_GE(mean_kl(p, q, 10), 0) << seed;
    EXPECT_GT(mean_kl(p, noise(10, seed + 1000, 10), 10), 0) << seed;
  }
}

TEST(MeanKl, BearsLargeAndInfiniteLogits) {
  const std::vector<float> p = {1000, -1000, 0}, q = {-1000, 1000, 0};
  EXPECT_NEAR(mean_kl(p, q, 3), 2000, 1e-6);
  const std::vector<float> sure = {0, -kInfinity}, unsure = {0, 0};
  EXPECT_NEAR(mean_kl(sure, unsure, 2), std::log(2.0), 1e-12);
  EXPECT_EQ(mean_kl(unsure, sure, 2), std::numeric_limits<double>::infinity());
  EXPECT_EQ(mean_kl(sure, sure, 2), 0);
}

TEST(RelativeDistance, IsTheDistanceInRelationToTheLongerOne) {
  const std::vector<float> a = {3, 4}, b = {3, 0}, zero = {0, 0};
  EXPECT_DOUBLE_EQ(relative_distance(a, b), 0.8);
  EXPECT_DOUBLE_EQ(relative_distance(b, a), 0.8);
  EXPECT_DOUBLE_EQ(relative_distance(a, zero), 1);
  const std::vector<float> opposite = {-3, -4};
  EXPECT_DOUBLE_EQ(relative_distance(a, opposite), 2);
}

TEST(RelativeDistance, IsExactlyZeroForEqualWeights) {
  const std::vector<float> a = noise(1000, 3, 1), zero(10);
  EXPECT_EQ(relative_distance(a, a), 0);
  EXPECT_EQ(relative_distance(zero, zero), 0);
  EXPECT_EQ(relative_distance({}, {}), 0);
}

TEST(RelativeDistance, SeesTheLeastDifferenceAndBearsLargeNumbers) {
  std::vector<float> a(1000, 1e30F), b = a;
  b[7] = std::nextafter(b[7], kInfinity);
  EXPECT_GT(relative_distance(a, b), 0);
  EXPECT_LT(relative_distance(a, b), 1e-6);
}

}  // namespace
}  // namespace tandem::converge
