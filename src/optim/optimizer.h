// Optimizers on flat float vectors: sgd (momentum, nesterov), adam, adamw and adagrad, with
// PyTorch's arithmetic in PyTorch's order. A step reads and writes each array once, allocates
// nothing, and gives the same bits on every instruction set. Workers hold one for the whole vector;
// a parameter server holds one for its slice.
//
// The state is a few named arrays as long as the parameters, and a step count. Whoever saves
// state() and steps() and puts them back continues with the same bits. Thread-compatible; update()
// and update_from() of parts that do not overlap may run side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "optim/config.h"
#include "optim/range.h"

namespace tandem::optim {

// One array of an optimizer's state, as checkpoints name it: "momentum", "exp_avg", "exp_avg_sq" or
// "sum". The values may be written, to restore them.
struct StateTensor {
  std::string_view name;
  std::span<float> values;
};

// Whether all parameters are numbers after a step, or training has diverged.
enum class Updated : std::uint8_t { kFinite, kNotFinite };

class Optimizer {
 public:
  // An optimizer of `size` parameters, its state all zeros. kInvalidArgument names the key that is
  // out of range; kOutOfSpace when the state does not fit into memory.
  static Result<std::unique_ptr<Optimizer>> create(const OptimizerConfig& config,
                                                   std::int64_t size);
  virtual ~Optimizer() = default;

  // Updates the parameters in place. Only what `trainable` names is touched; ranges count from the
  // start of `parameters`. Gradients are multiplied by `gradient_scale` as they are read, so that
  // clipping by norm needs no pass of its own (optim/clip.h). REQUIRES: both spans have size()
  // floats and do not overlap; ranges lie inside them.
  Updated step(std::span<float> parameters, std::span<const float> gradients, double lr,
               std::span<const Range> trainable, double gradient_scale = 1);
  // The same for all parameters.
  Updated step(std::span<float> parameters, std::span<const float> gradients, double lr,
               double gradient_scale = 1);

  // A step in parts: begin(), then update() once for every part of the parameters that is to
  // change; `gradients` are those of the part alone.
  void begin(double lr, double gradient_scale = 1);
  Updated update(std::span<float> parameters, std::span<const float> gradients, Range part);
  // The same when the gradients are the sums of up to kMostTerms arrays, which are added as they
  // are read: a + b, (a + b) + c, (a + b) + (c + d). They may lie in other cores' caches, of two
  // the second: what comes next is asked for. All have as many floats as the part.
  static constexpr std::size_t kMostTerms = 4;
  Updated update(std::span<float> parameters, std::span<const float* const> terms, Range part);

  // The same when the part's parameters were in another vector before: reads them there and writes
  // them here. The optimizer's state is updated in place. REQUIRES: the vectors do not overlap.
  Updated update_from(std::span<const float> old, std::span<float> parameters,
                      std::span<const float> gradients, Range part);

  // The arrays, always the same ones in the same order; none for sgd without momentum.
  virtual std::vector<StateTensor> state() = 0;

  std::int64_t size() const { return size_; }
  // Steps done so far; adam's bias correction depends on it.
  std::int64_t steps() const { return steps_; }
  // REQUIRES: steps >= 0.
  void set_steps(std::int64_t steps);

 protected:
  explicit Optimizer(std::int64_t size) : size_(size) {}

  // A range's gradients: the sum of these arrays.
  using Terms = std::span<const float* const>;

  // Copies what it then applies to.
  virtual bool apply_from(const float* old, float* parameters, const float* slopes, Range range);

 private:
  // What the ranges of a step have in common. `steps` counts this step too.
  virtual void begin_step(double lr, double gradient_scale, std::int64_t steps) = 0;
  // Returns whether a parameter is no longer finite. REQUIRES: begin_step() was called; the range
  // is checked.
  virtual bool apply(float* parameters, Terms slopes, Range range) = 0;

  const std::int64_t size_;
  std::int64_t steps_ = 0;
};

}  // namespace tandem::optim
