#include "ps/row_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "optim/optimizer.h"

namespace tandem::ps {
namespace {

using optim::OptimizerConfig;
using optim::OptimizerKind;

std::vector<OptimizerConfig> all_kinds() {
  return {
      {.kind = OptimizerKind::kSgd},
      {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .l1 = 1e-3},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdam, .lr = 0.01},
      {.kind = OptimizerKind::kAdam, .lr = 0.01, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdamW, .lr = 0.01, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdagrad, .lr = 0.01, .l1 = 1e-4},
  };
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

TEST(RowRule, HasTheBitsOfTheOptimizer) {
  for (const OptimizerConfig& config : all_kinds()) {
    for (const std::size_t width : {1U, 3U, 16U, 33U}) {
      const auto optimizer = optim::Optimizer::create(config, static_cast<std::int64_t>(width));
      ASSERT_TRUE(optimizer.ok());
      auto rule = RowRule::create(config, width);
      ASSERT_TRUE(rule.ok());
      ASSERT_EQ(rule->words(), width * (1 + (*optimizer)->state().size()));
      std::vector<float> weights(width), gradients(width), row(rule->words());
      Rng rng({9, width});
      for (std::size_t i = 0; i < width; ++i) row[i] = weights[i] = rng.normal();
      for (std::int64_t step = 1; step <= 5; ++step) {
        const double lr = config.lr / static_cast<double>(step);
        for (float& gradient : gradients) gradient = rng.normal();
        (*optimizer)->step(weights, gradients, lr);
        rule->begin_step(lr, step);
        EXPECT_FALSE(rule->update(row.data(), gradients.data()));
      }
      std::vector<float> expected = weights;
      for (const optim::StateTensor& state : (*optimizer)->state()) {
        expected.insert(expected.end(), state.values.begin(), state.values.end());
      }
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), row.begin(), row.end(), same_bits))
          << "kind " << static_cast<int>(config.kind) << " width " << width;
    }
  }
}

TEST(RowRule, SaysWhenAWeightIsNoLongerANumber) {
  auto rule = RowRule::create({.lr = 1}, 2);
  ASSERT_TRUE(rule.ok());
  float row[] = {0, -std::numeric_limits<float>::max()};
  const float gradients[] = {0, std::numeric_limits<float>::max()};
  EXPECT_TRUE(rule->update(row, gradients));
}

TEST(RowRule, RefusesWhatTheOptimizerRefuses) {
  const auto rule = RowRule::create({.momentum = 1}, 2);
  ASSERT_FALSE(rule.ok());
  EXPECT_EQ(rule.error().message(),
            "optimizer.momentum is 1, but must be at least 0 and less than 1");
}

}  // namespace
}  // namespace tandem::ps
