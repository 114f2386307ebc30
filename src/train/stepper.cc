#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/span_math.h"
#include "optim/clip.h"
#include "train/recipe.h"

namespace tandem::train {

Result<std::unique_ptr<Stepper>> Stepper::create(const job::Job& job, model::Model& model,
                                                 Trainable trainable) {
  TANDEM_ASSIGN(auto optimizer,
                optim::Optimizer::create(job.train.optimizer, model.blueprint().parameters));
  return std::unique_ptr<Stepper>(
      new Stepper(job, model, std::move(trainable), std::move(optimizer)));
}

Stepper::Stepper(const job::Job& job, model::Model& model, Trainable trainable,
                 std::unique_ptr<optim::Optimizer> optimizer)
    : seed_(job.train.seed),
      clip_(job.train.clip),
      trainable_(std::move(trainable.parameters)),
      live_buffers_(std::move(trainable.buffers)),
      model_(model),
      optimizer_(std::move(optimizer)),
      tree_(job.lanes(), model.blueprint().parameters + model.blueprint().buffers) {}

Status Stepper::run_lane(const data::Batch& batch, std::int64_t step, std::int64_t lane,
                         std::int64_t step_samples) {
  const std::span<float> memory = tree_.next();
  if (batch.size == 0) {
    std::fill(memory.begin(), memory.end(), 0.0F);
  } else {
    const auto parameters = static_cast<std::size_t>(model_.blueprint().parameters);
    const model::LaneOutput output = {memory.first(parameters), memory.subspan(parameters), {}};
    TANDEM_ASSIGN(const model::LossSums sums,
                  model_.forward_backward(batch, 1.0F / static_cast<float>(step_samples),
                                          {seed_, step, lane}, output));
    sums_.add(sums);
  }
  tree_.push();
  return {};
}

Result<StepOutcome> Stepper::finish_step(std::int64_t step, double lr) {
  const std::span<float> sum = tree_.finish();
  const std::span<float> gradients =
      sum.first(static_cast<std::size_t>(model_.blueprint().parameters));
  const StepOutcome outcome{std::exchange(sums_, {}), 0};
  if (!std::isfinite(outcome.sums.loss)) return diverged(gradients, step);
  const optim::Clipping clipping = optim::begin_clip(gradients, clip_, trainable_);
  if (!std::isfinite(clipping.norm)) return diverged(gradients, step);
  const optim::Updated updated =
      optimizer_->step(model_.parameters(), gradients, lr, trainable_, clipping.scale);
  if (updated == optim::Updated::kNotFinite) return diverged(gradients, step);
  const std::span<const float> statistics = sum.subspan(gradients.size());
  for (const optim::Range& range : live_buffers_) {
    const auto begin = static_cast<std::size_t>(range.begin);
    const auto count = static_cast<std::size_t>(range.end - range.begin);
    model::update_buffers(model_.buffers().subspan(begin, count), statistics.subspan(begin, count));
  }
  model_.parameters_changed();
  return StepOutcome{outcome.sums, clipping.norm};
}

Error Stepper::diverged(std::span<const float> gradients, std::int64_t step) const {
  constexpr const char* kAdvice =
      "lower train.optimizer.lr, add train.clip.norm or train.schedule.warmup_steps, or look for "
      "such values in the data";
  const auto parameters = std::span<const float>(model_.parameters());
  const auto name = [&](std::size_t index) {
    return slot_at(model_.blueprint(), arch::SlotKind::kParameter, static_cast<std::int64_t>(index))
        .name;
  };
  std::string what = "the loss is not a finite number";
  if (const std::size_t bad = first_not_finite(gradients); bad < gradients.size()) {
    what = fmt::format("the gradient of `{}` is {}", name(bad), gradients[bad]);
  } else if (const std::size_t worse = first_not_finite(parameters); worse < parameters.size()) {
    what = fmt::format("the update made `{}` {}", name(worse), parameters[worse]);
  }
  return Error(Code::kDiverged,
               fmt::format("training diverged at step {}: {}; {}", step + 1, what, kAdvice));
}

}  // namespace tandem::train
