// Models for tests, and the comparison of their gradients with finite differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "arch/arch.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "model/model.h"

namespace tandem::model {

inline std::unique_ptr<Model> make(const arch::ModelConfig& config,
                                   const arch::Interface& interface, const arch::Loss& loss = {}) {
  auto blueprint = arch::build(config, interface);
  EXPECT_TRUE(blueprint.ok()) << (blueprint.ok() ? "" : blueprint.error().message());
  auto model = Model::create(std::move(blueprint).value(), loss, 1);
  EXPECT_TRUE(model.ok());
  (*model)->initialise(3);
  return std::move(model).value();
}

struct Pieces {
  std::vector<float> gradients, statistics;
  LossSums sums;
};

inline Pieces run(Model& model, const data::Batch& batch, LaneKey key = {1, 2, 3}) {
  Pieces pieces;
  pieces.gradients.resize(model.parameters().size());
  pieces.statistics.resize(model.buffers().size());
  const auto sums = model.forward_backward(batch, 1.0F / static_cast<float>(batch.size), key,
                                           {pieces.gradients, pieces.statistics, {}});
  EXPECT_TRUE(sums.ok()) << (sums.ok() ? "" : sums.error().message());
  pieces.sums = *sums;
  return pieces;
}

// The slope of the loss along `direction` from where the slot is, by finite differences.
inline double slope_along(Model& model, const data::Batch& batch, std::span<float> slot,
                          const std::vector<float>& direction) {
  constexpr double kLength = 1e-3;
  const std::vector<float> before(slot.begin(), slot.end());
  const auto loss_at = [&](double distance) {
    for (std::size_t i = 0; i < slot.size(); ++i) {
      slot[i] = before[i] + static_cast<float>(distance) * direction[i];
    }
    model.parameters_changed();
    return run(model, batch).sums.loss / static_cast<double>(batch.size);
  };
  const double slope = (loss_at(kLength) - loss_at(-kLength)) / (2 * kLength);
  std::copy(before.begin(), before.end(), slot.begin());
  model.parameters_changed();
  return slope;
}

// Compares each parameter slot's gradient with finite differences along two directions of length 1:
// near the gradient, where the slope is large against rounding, and at random, where an entry that
// backward forgot would show. Dropout keeps its mask because the key stays.
inline void expect_gradients_match(Model& model, const data::Batch& batch) {
  const Pieces pieces = run(model, batch);
  Rng rng({99});
  for (const arch::Slot& slot : model.blueprint().slots) {
    if (slot.kind != arch::SlotKind::kParameter) continue;
    const auto offset = static_cast<std::size_t>(slot.offset);
    const auto part = model.parameters().subspan(offset, static_cast<std::size_t>(slot.size));
    for (const bool random : {false, true}) {
      std::vector<float> direction(part.size());
      double squares = 0, expected = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        direction[i] =
            random ? rng.normal() : pieces.gradients[offset + i] * (0.5F + rng.uniform());
        squares += static_cast<double>(direction[i]) * direction[i];
      }
      ASSERT_GT(squares, 0) << slot.name << " has no gradient";
      for (std::size_t i = 0; i < part.size(); ++i) {
        direction[i] /= static_cast<float>(std::sqrt(squares));
        expected += static_cast<double>(direction[i]) * pieces.gradients[offset + i];
      }
      EXPECT_NEAR(slope_along(model, batch, part, direction), expected,
                  0.02 * std::abs(expected) + 5e-4)
          << slot.name << (random ? " at random" : " along the gradient");
    }
  }
}

}  // namespace tandem::model
