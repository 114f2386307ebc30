#include "train/early_stop.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem::train {

std::optional<std::string> EarlyStop::observe(const Evaluation& evaluation) {
  const bool by_accuracy = metric_ == "accuracy";
  const double metric = by_accuracy ? evaluation.accuracy.value_or(0) : evaluation.loss;
  const double value = by_accuracy ? metric : -metric;
  if (!state_.best || value > *state_.best + min_delta_) {
    state_.best = value;
    state_.bad = 0;
  } else {
    ++state_.bad;
  }
  state_.loss_before = state_.loss;
  state_.loss = evaluation.loss;
  if (target_ > 0 && (by_accuracy ? metric >= target_ : metric <= target_)) state_.reached = metric;
  return reason();
}

std::optional<std::string> EarlyStop::reason() const {
  if (target_ > 0 && state_.reached)
    return fmt::format("{} reached {:.6g}, as good as the target {:.6g}", metric_, *state_.reached,
                       target_);
  if (change_ > 0 && state_.loss && state_.loss_before) {
    const double change = std::abs(*state_.loss - *state_.loss_before);
    if (change < change_ * std::abs(*state_.loss_before)) {
      return fmt::format(
          "the loss changed from {:.6g} to {:.6g}, by less than a fraction of {:.6g}",
          *state_.loss_before, *state_.loss, change_);
    }
  }
  if (patience_ > 0 && state_.bad >= patience_) {
    return fmt::format("{} did not get better than {:.6g} in {} evaluations", metric_,
                       std::abs(*state_.best), state_.bad);
  }
  return {};
}

}  // namespace tandem::train
