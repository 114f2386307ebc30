// How an optimizer changes one row whose state lies behind its weights. The arithmetic is that of
// src/optim/, loop by loop, so a row that is updated once a step has the bits that optim::Optimizer
// would give it. A row's words are: width weights, then the state's arrays in the order of
// Optimizer::state(), width floats each.
//
// A plain value; update() may run on several threads, on different rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "optim/config.h"
#include "optim/kernels.h"

namespace tandem::ps {

class RowRule {
 public:
  // kInvalidArgument names the key of the configuration that is out of range. REQUIRES: width >= 1.
  static Result<RowRule> create(const optim::OptimizerConfig& config, std::size_t width);

  // What the updates until the next call have in common. `step` counts from 1: adam's bias
  // correction depends on it. REQUIRES: step >= 1.
  void begin_step(double lr, std::int64_t step);

  // Updates the row in place. Returns whether a weight is no longer a finite number.
  bool update(float* row, const float* gradient) const { return loop_(*this, row, gradient); }

  // Floats of a row: weights and state.
  std::size_t words() const { return words_; }

 private:
  using Loop = bool (*)(const RowRule&, float*, const float*);
  struct Loops;

  RowRule(const optim::OptimizerConfig& config, std::size_t width);

  // Constant after construction.
  optim::OptimizerConfig config_;
  std::size_t width_;
  std::size_t words_;

  // Of the step that runs.
  Loop loop_ = nullptr;
  optim::kernels::Penalty penalty_;
  optim::kernels::AdamFactors factors_;
  float lr_ = 0;
};

}  // namespace tandem::ps
