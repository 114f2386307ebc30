// The part of Stepper that begins a step before all of the last one has come.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "train/stepper.h"

namespace tandem::train {

Result<bool> Stepper::leave_pending() {
  if (!exchange_->comes_in_parts()) return false;
  const Status told =
      exchange_->gather_part({tail_, floats_}, collective::deadline_after(patience_));
  if (!told.ok()) return Error(told.error()).within(fmt::format("step {}", step_ + 1));
  const StepOutcome outcome = read_tail();
  if (outcome.wish != Wish::kGoOn || !std::isfinite(outcome.sums.loss) || exchange_->has_all())
    return false;
  reset();
  pending_ = {step_, statistics_scale_};
  return true;
}

void Stepper::pending_needed(std::size_t end) {
  if (!told_status_.ok()) return;
  const auto begin = std::chrono::steady_clock::now();
  Status came =
      exchange_->update_part(end, model_.parameters(), collective::deadline_after(patience_));
  if (!came.ok())
    told_status_ = std::move(came).error().within(fmt::format("step {}", pending_->step + 1));
  waited_ += std::chrono::steady_clock::now() - begin;
}

void Stepper::settle_pending() {
  if (!pending_ || !told_status_.ok()) return;
  const auto begin = std::chrono::steady_clock::now();
  auto outcome = settle(*pending_);
  if (outcome.ok()) {
    pending_.reset();
    settled_ = std::move(outcome).value();
    told_status_ = exchange_->begin(step_, lr_);
  } else {
    told_status_ = std::move(outcome).error();
  }
  waited_ += std::chrono::steady_clock::now() - begin;
}

void Stepper::drop_pending() {
  if (!std::exchange(pending_, std::nullopt)) return;
  exchange_->undo(model_.parameters());
  model_.parameters_changed();
}

}  // namespace tandem::train
