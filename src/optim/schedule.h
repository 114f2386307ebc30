// The learning rate of each step: constant, stepwise, cosine or plateau, with a linear warm-up in
// front of any. A pure function of the step, except that plateau remembers losses; that memory is a
// few named numbers, so that a checkpoint can keep them. Has the same bits on every processor
// (optim/portable.h). Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "base/result.h"
#include "optim/config.h"

namespace tandem::optim {

struct StateValue {
  std::string_view name;
  double value = 0;
};

// The length of the training that a schedule is stretched over.
struct Horizon {
  std::int64_t steps_per_epoch = 1;
  std::int64_t total_steps = 1;
};

class Schedule {
 public:
  // kInvalidArgument names the key that is out of range. REQUIRES: lr >= 0, horizon fields >= 1.
  static Result<Schedule> create(const ScheduleConfig& config, double lr, Horizon horizon);

  // The rate for step `step`, counted from 0.
  //   warm-up: step s of w has (s + 1) / w of the rate, so none is wasted on a rate of 0.
  //   step:    gamma^n of the rate after n times every_epochs epochs, warm-up included.
  //   cosine:  half a cosine from the warm-up's end to total_steps, where min_lr is reached and
  //   kept. plateau: the rate as observe() left it.
  // REQUIRES: step >= 0.
  double lr_at(std::int64_t step) const;

  // plateau: takes note of an evaluation's loss. After `patience` in a row that are not below the
  // best (NaN never is), the rate is multiplied by gamma, down to min_lr. Returns whether the rate
  // became lower; other kinds: never.
  bool observe(double loss);

  // "best", "bad" and "factor", in this order; the same for all kinds.
  std::array<StateValue, 3> state() const;
  // Puts back what state() gave. kCorrupt, changing nothing, when a name is missing or a value is
  // impossible.
  Status restore(std::span<const StateValue> values);

 private:
  Schedule(const ScheduleConfig& config, double lr, Horizon horizon)
      : config_(config), lr_(lr), horizon_(horizon) {}

  double decayed(std::int64_t step) const;

  // Constant after construction.
  ScheduleConfig config_;
  double lr_;
  Horizon horizon_;

  // Of plateau.
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t bad_ = 0;  // Evaluations since the best, or since the rate was lowered.
  double factor_ = 1;
};

}  // namespace tandem::optim
