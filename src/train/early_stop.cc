#include "train/early_stop.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem::train {

std::optional<std::string> EarlyStop::observe(const Evaluation& evaluation) {
  if (patience_ <= 0) return {};
  const double value = metric_ == "accuracy" ? evaluation.accuracy.value_or(0) : -evaluation.loss;
  if (!best_ || value > *best_ + min_delta_) {
    best_ = value;
    bad_ = 0;
    return {};
  }
  if (++bad_ < patience_) return {};
  return fmt::format("{} did not get better than {:.6g} in {} evaluations", metric_,
                     std::abs(*best_), bad_);
}

}  // namespace tandem::train
