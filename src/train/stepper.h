// One optimizer step on lanes: forward and backward of each lane, the lane tree's sum, clipping,
// the update, and the running statistics. Knows nothing of files, processes or time.
// Thread-compatible; allocates nothing after the first steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "job/job.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "optim/range.h"
#include "train/lane_tree.h"
#include "train/recipe.h"

namespace tandem::train {

struct StepOutcome {
  model::LossSums sums;
  double grad_norm = 0;  // 0 when clipping by norm is off.
};

class Stepper {
 public:
  // `model` must outlive it.
  static Result<std::unique_ptr<Stepper>> create(const job::Job& job, model::Model& model,
                                                 Trainable trainable);

  // Call for each lane in order, with its batch of the step (which may be empty), then
  // finish_step().
  Status run_lane(const data::Batch& batch, std::int64_t step, std::int64_t lane,
                  std::int64_t step_samples);

  // kDiverged, with the tensor's name, when the loss, the gradient's norm or an updated parameter
  // is not finite; the model is then of no more use.
  Result<StepOutcome> finish_step(std::int64_t step, double lr);

 private:
  Stepper(const job::Job& job, model::Model& model, Trainable trainable,
          std::unique_ptr<optim::Optimizer> optimizer);

  Error diverged(std::span<const float> gradients, std::int64_t step) const;

  // Constant after construction.
  const std::uint64_t seed_;
  const optim::ClipConfig clip_;
  const std::vector<optim::Range> trainable_;
  const std::vector<optim::Range> live_buffers_;

  model::Model& model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  LaneTree tree_;  // Of gradients, then statistics.
  model::LossSums sums_;
};

}  // namespace tandem::train
