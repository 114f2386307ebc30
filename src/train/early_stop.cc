#include "train/early_stop.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem::train {

std::optional<std::string> EarlyStop::observe(const Evaluation& evaluation) {
  if (patience_ <= 0) return {};
  const double value = metric_ == "accuracy" ? evaluation.accuracy.value_or(0) : -evaluation.loss;
  if (!state_.best || value > *state_.best + min_delta_) {
    state_ = {value, 0};
  } else {
    ++state_.bad;
  }
  return reason();
}

std::optional<std::string> EarlyStop::reason() const {
  if (patience_ <= 0 || state_.bad < patience_) return {};
  return fmt::format("{} did not get better than {:.6g} in {} evaluations", metric_,
                     std::abs(*state_.best), state_.bad);
}

}  // namespace tandem::train
