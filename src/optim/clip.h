// Clipping of gradients, by value and then by the norm of the whole, as PyTorch's clip_grad_value_
// and clip_grad_norm_ do. Sums have a fixed order. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "optim/config.h"
#include "optim/range.h"

namespace tandem::optim {

struct Clipping {
  double norm = 0;   // Of the trained gradients before scaling; 0 when clipping by norm is off.
  double scale = 1;  // What they are still to be multiplied by: pass it to Optimizer::step().
};

// Clips by value, in place. Gradients outside `trainable` are not changed. REQUIRES: ranges lie
// inside the gradients.
void clip_by_value(std::span<float> gradients, const ClipConfig& config,
                   std::span<const Range> trainable);

// Finds by how much the norm is too large: scale = min(1, norm limit / (norm + 1e-6)). A norm that
// is not finite gives a scale that is not either, or 0: look at `norm`. Gradients outside
// `trainable` are not counted.
Clipping clip_by_norm(std::span<const float> gradients, const ClipConfig& config,
                      std::span<const Range> trainable);

// The squares of a norm are summed block by block of the vector, so that whoever holds whole blocks
// can sum its own: the norm has the same bits however the vector is cut between them.
inline constexpr std::size_t kSquaresBlock = 1024;

// Adds one number for each block that floats [begin, begin + gradients.size()) of the vector touch:
// the sum of squares of its trained gradients. REQUIRES: ranges count from the vector's start.
void add_squares(std::span<const float> gradients, std::size_t begin,
                 std::span<const Range> trainable, std::vector<double>& squares);

// What the sum of all blocks' squares, added in their order, says.
Clipping clipping_of(double squares, const ClipConfig& config);

// Clips by value and by norm in place; returns the norm. One pass more than the two
// above and a scaled step.
double clip(std::span<float> gradients, const ClipConfig& config);

}  // namespace tandem::optim
