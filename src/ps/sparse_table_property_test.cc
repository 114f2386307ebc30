// Random operations on a sparse table and on a reference that is as plain as can be: maps of rows,
// optim::Optimizer for the arithmetic, and no sweeps.
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "optim/optimizer.h"
#include "ps/sparse_table.h"

namespace tandem::ps {
namespace {

using optim::OptimizerKind;

class Reference {
 public:
  explicit Reference(const SparseTableConfig& config) : config_(config) {}

  void begin_step(std::int64_t step, double lr) {
    step_ = step;
    lr_ = lr;
  }

  Pushed push(const std::vector<std::uint64_t>& keys, const std::vector<float>& gradients) {
    Pushed pushed;
    const auto width = static_cast<std::size_t>(config_.width);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      forget_if_old(keys[i]);
      Entry& entry = entries_[keys[i]];
      entry.touched = step_;
      if (entry.optimizer == nullptr && entry.touches < config_.admit_after) {
        ++entry.touches;
        ++pushed.dropped;
        continue;
      }
      if (entry.optimizer == nullptr) {
        ++pushed.created;
        entry.weights = beginning(keys[i]);
        entry.optimizer = optim::Optimizer::create(config_.optimizer, config_.width).value();
      }
      entry.optimizer->set_steps(step_ - 1);
      entry.optimizer->step(entry.weights, std::span(gradients).subspan(i * width, width), lr_);
      ++pushed.applied;
    }
    return pushed;
  }

  std::vector<float> pull(const std::vector<std::uint64_t>& keys) {
    std::vector<float> weights;
    for (const std::uint64_t key : keys) {
      forget_if_old(key);
      const auto found = entries_.find(key);
      const std::vector<float> row = found == entries_.end() || found->second.optimizer == nullptr
                                         ? beginning(key)
                                         : found->second.weights;
      weights.insert(weights.end(), row.begin(), row.end());
    }
    return weights;
  }

 private:
  struct Entry {
    std::int64_t touched = 0, touches = 0;
    std::vector<float> weights;
    std::unique_ptr<optim::Optimizer> optimizer;  // Null: not admitted.
  };

  void forget_if_old(std::uint64_t key) {
    const auto found = entries_.find(key);
    if (found != entries_.end() && config_.evict_after != 0 &&
        step_ - found->second.touched >= config_.evict_after) {
      entries_.erase(found);
    }
  }

  std::vector<float> beginning(std::uint64_t key) const {
    std::vector<float> weights(static_cast<std::size_t>(config_.width));
    Rng rng({config_.seed, key});
    const auto scale = static_cast<float>(config_.init_scale);
    for (float& weight : weights) weight = (2 * rng.uniform() - 1) * scale;
    return weights;
  }

  const SparseTableConfig config_;
  std::int64_t step_ = 1;
  double lr_ = 0;
  std::unordered_map<std::uint64_t, Entry> entries_;
};

struct Mixture {
  std::uint64_t keys;  // How many different ones.
  int steps;
  std::size_t batch;
};

void compare(const SparseTableConfig& config, const Mixture& mixture, std::uint64_t seed) {
  auto created = SparseTable::create(config);
  ASSERT_TRUE(created.ok());
  SparseTable& table = *created;
  Reference reference(config);
  Rng rng({seed, 77});
  std::int64_t step = 1;
  for (int i = 0; i < mixture.steps; ++i) {
    step += static_cast<std::int64_t>(rng.below(3));
    const double lr = 0.1 / static_cast<double>(1 + rng.below(4));
    ASSERT_TRUE(table.begin_step(step, lr).ok());
    reference.begin_step(step, lr);
    std::vector<std::uint64_t> keys(rng.below(mixture.batch));
    // Some keys are common, so that they repeat in a push and stay.
    for (auto& key : keys) key = mix64(rng.below(rng.below(2) == 0 ? mixture.keys : 20));
    std::vector<float> gradients(keys.size() * static_cast<std::size_t>(config.width));
    for (float& gradient : gradients) gradient = rng.uniform() - 0.5F;
    const auto pushed = table.push(keys, gradients);
    ASSERT_TRUE(pushed.ok());
    const Pushed expected = reference.push(keys, gradients);
    ASSERT_EQ(pushed->applied, expected.applied);
    ASSERT_EQ(pushed->dropped, expected.dropped);
    ASSERT_EQ(pushed->created, expected.created);
    if (rng.below(2) == 0) table.sweep(static_cast<std::int64_t>(rng.below(5'000)));
    for (auto& key : keys) key = mix64(rng.below(mixture.keys));
    std::vector<float> weights(keys.size() * static_cast<std::size_t>(config.width));
    ASSERT_TRUE(table.pull(keys, weights).ok());
    ASSERT_EQ(weights, reference.pull(keys)) << "step " << step;
  }
}

TEST(SparseTableProperty, IsAsTheReferenceWhateverTheOptimizer) {
  const optim::OptimizerConfig optimizers[] = {
      {.kind = OptimizerKind::kSgd},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9},
      {.kind = OptimizerKind::kAdagrad},
      {.kind = OptimizerKind::kAdam},
  };
  std::uint64_t seed = 0;
  for (const optim::OptimizerConfig& optimizer : optimizers) {
    for (const std::int64_t admit_after : {0, 2}) {
      for (const std::int64_t evict_after : {0, 7}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        compare({.width = static_cast<std::int64_t>(1 + seed % 5),
                 .optimizer = optimizer,
                 .seed = seed,
                 .init_scale = 0.1,
                 .admit_after = admit_after,
                 .evict_after = evict_after},
                {.keys = 3'000, .steps = 40, .batch = 600}, seed);
        ++seed;
      }
    }
  }
}

TEST(SparseTableProperty, IsAsTheReferenceWhenItGrowsMuch) {
  compare({.width = 2, .init_scale = 0.1, .admit_after = 1, .evict_after = 40},
          {.keys = 60'000, .steps = 60, .batch = 4'000}, 1);
}

}  // namespace
}  // namespace tandem::ps
