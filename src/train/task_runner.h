// Computes tasks, a lane of a step each, for as long as the parameter servers hand out some: the
// part of a training in which workers do not wait for each other. Knows nothing of files or
// processes; what happens between two stretches is the trainer's.
//
// Running statistics, as of batch-norm, are kept by each worker and averaged at the end of a
// stretch. Belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "exchange/tasks.h"
#include "job/job.h"
#include "model/model.h"
#include "optim/range.h"
#include "train/aggregate.h"
#include "train/stepper.h"

namespace tandem::train {

struct StretchOutcome {
  std::int64_t step = 0;                 // Where it ended.
  bool stops = false, regroups = false;  // What somebody wished.
  double loss = 0;                       // Summed over the samples of all tasks that were counted,
  std::int64_t samples = 0;              // which are so many.
  std::vector<std::uint64_t> staleness, missed;  // As ps::Dispenser counts them.
  std::int64_t dropped_samples = 0;              // Of tasks that came too late.
};

class TaskRunner {
 public:
  // What a worker wants to happen, and when somebody else may speak.
  enum class Wish : std::uint8_t { kGoOn = 0, kStop = 1, kRegroup = 2, kPause = 4 };
  struct Hooks {
    std::function<Wish()> wish;                   // Asked before each task.
    std::function<double(std::int64_t step)> lr;  // Of a step.
    // All is done, and the model's parameters are those after outcome.step, whatever happens next.
    std::function<void(const StretchOutcome&)> stands;
    std::function<void(const ps::TaskGiven&)> progress;  // Called with each task.
  };

  // All must outlive it.
  TaskRunner(const job::Job& job, model::Model& model, const data::Dataset& dataset,
             const data::Sampler& sampler, Stepper& stepper, collective::Group& group);

  // Steps [from, to), or fewer; every worker of the group calls this. kDiverged as Stepper's.
  // REQUIRES: the stepper has joined with servers that do not wait.
  Status run(std::int64_t from, std::int64_t to, const Hooks& hooks);

 private:
  Result<ps::TaskDone> compute(std::int64_t task, const Hooks& hooks);
  StretchOutcome outcome_of(const wire::PsStretchEnd& end);
  // Which samples a task has.
  std::span<const std::uint32_t> samples_of(std::int64_t task);
  void part_ready(std::size_t begin);
  Status end(const wire::PsStretchEnd& told, const Hooks& hooks);
  Status average_buffers();
  // Of the error of an exchange, after `step` steps.
  Status tell(const Status& status, std::int64_t step) const;
  Error diverged(std::int64_t step, const std::string& what) const;
  collective::Deadline deadline() const { return collective::deadline_after(patience_); }

  // Constant after construction.
  const std::uint64_t seed_;
  const std::int64_t lanes_;
  const std::chrono::milliseconds patience_;
  const Aggregate aggregate_;
  const optim::ClipConfig clip_;
  const std::optional<std::int64_t> staleness_;
  const std::int64_t quorum_;  // Lanes; 0: steps are not closed.
  const bool compensates_;

  model::Model& model_;
  const data::Dataset& dataset_;
  const data::Sampler& sampler_;
  Stepper& stepper_;
  collective::Group& group_;

  data::Batch batch_;
  std::vector<std::uint32_t> indices_;
  std::vector<float> statistics_;
  std::int64_t computed_ = 0;  // Tasks of the stretch.

  // Of the task under way.
  std::size_t told_ = 0;  // Buckets.
  Status told_status_;
};

}  // namespace tandem::train
