// Decides when a model is good enough, or does not get better. A pure function of the evaluations,
// so every worker comes to the same decision. Plain state; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/job.h"
#include "train/evaluate.h"

namespace tandem::train {

class EarlyStop {
 public:
  explicit EarlyStop(const job::Train& train)
      : patience_(train.early_stop_patience),
        metric_(train.early_stop_metric),
        min_delta_(train.early_stop_min_delta),
        target_(train.early_stop_target),
        change_(train.early_stop_change) {}

  // Takes note of an evaluation and returns reason().
  std::optional<std::string> observe(const Evaluation& evaluation);
  // Why training shall end, if it shall.
  std::optional<std::string> reason() const;

  // What it remembers, for checkpoints.
  struct State {
    std::optional<double> best;               // The larger the better: a loss is negated.
    std::int64_t bad = 0;                     // Evaluations since the best.
    std::optional<double> loss, loss_before;  // Of the last two evaluations.
    std::optional<double> reached;            // The value that was as good as the target.
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  const std::int64_t patience_;
  const std::string metric_;
  const double min_delta_, target_, change_;
  State state_;
};

}  // namespace tandem::train
