#include "optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tandem::optim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Clip, DoesNothingWhenOff) {
  std::vector<float> gradients = {3, -4, 1e30F};
  EXPECT_EQ(clip(gradients, {}), 0);
  EXPECT_EQ(gradients, (std::vector<float>{3, -4, 1e30F}));
}

TEST(Clip, ScalesDownToTheNorm) {
  std::vector<float> gradients = {3, -4};
  EXPECT_EQ(clip(gradients, {.norm = 1}), 5);
  const auto scale = static_cast<float>(1 / (5 + 1e-6));
  EXPECT_EQ(gradients, (std::vector<float>{3 * scale, -4 * scale}));
}

TEST(Clip, LeavesSmallGradientsAlone) {
  std::vector<float> gradients = {0.3F, -0.4F};
  EXPECT_NEAR(clip(gradients, {.norm = 1}), 0.5, 1e-7);
  EXPECT_EQ(gradients, (std::vector<float>{0.3F, -0.4F}));
}

TEST(Clip, ClipsValuesBeforeTheNorm) {
  std::vector<float> gradients = {30, -40, 0};
  EXPECT_NEAR(clip(gradients, {.norm = 1, .value = 1}), std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(gradients[0], 0.70710, 1e-4);
  EXPECT_NEAR(gradients[1], -0.70710, 1e-4);
}

TEST(Clip, LeavesNanToBeFound) {
  std::vector<float> gradients = {std::nanf(""), 2, kInfinity, -kInfinity};
  clip(gradients, {.value = 1});
  EXPECT_TRUE(std::isnan(gradients[0]));
  EXPECT_EQ(gradients[1], 1);
  EXPECT_EQ(gradients[2], 1);
  EXPECT_EQ(gradients[3], -1);
  EXPECT_TRUE(std::isnan(clip(gradients, {.norm = 1})));
}

TEST(Clip, ReportsAnInfiniteNorm) {
  std::vector<float> gradients = {1, kInfinity};
  EXPECT_TRUE(std::isinf(clip(gradients, {.norm = 1})));
}

TEST(Clip, LeavesFrozenGradientsOut) {
  std::vector<float> gradients = {100, 3, -4, 100};
  const Range trainable[] = {{1, 2}, {2, 3}};
  clip_by_value(gradients, {.norm = 1, .value = 50}, trainable);
  const Clipping clipping = clip_by_norm(gradients, {.norm = 1, .value = 50}, trainable);
  EXPECT_EQ(clipping.norm, 5);
  EXPECT_EQ(clipping.scale, 1 / (5 + 1e-6));
  EXPECT_EQ(gradients, (std::vector<float>{100, 3, -4, 100}));
}

}  // namespace
}  // namespace tandem::optim
