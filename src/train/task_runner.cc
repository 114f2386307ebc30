#include "train/task_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/clip.h"
#include "train/recipe.h"

namespace tandem::train {

TaskRunner::TaskRunner(const job::Job& job, model::Model& model, const data::Dataset& dataset,
                       const data::Sampler& sampler, Stepper& stepper, collective::Group& group)
    : seed_(job.train.seed),
      lanes_(job.lanes()),
      patience_(patience_of(job.cluster)),
      aggregate_(aggregate_of(job.ps.aggregate)),
      clip_(job.train.clip),
      staleness_(job.ps.consistency == "ssp" ? std::optional(job.ps.staleness) : std::nullopt),
      quorum_(job.ps.consistency == "bsp"
                  ? static_cast<std::int64_t>(
                        std::ceil(job.ps.quorum * static_cast<double>(job.lanes()) - 1e-9))
                  : 0),
      compensates_(job.ps.compensation > 0),
      model_(model),
      dataset_(dataset),
      sampler_(sampler),
      stepper_(stepper),
      group_(group),
      statistics_(model.buffers().size()) {}

Status TaskRunner::run(std::int64_t from, std::int64_t to, const Hooks& hooks) {
  exchange::Tasks& tasks = stepper_.tasks();
  TANDEM_TRY(tell(tasks.begin_stretch({from, to, staleness_, quorum_}, deadline()), from));
  model_.parameters_changed();
  computed_ = 0;
  ps::TaskDone done;
  for (;;) {
    done.wish = static_cast<std::uint16_t>(hooks.wish());
    auto given = tasks.next(done, deadline());
    if (!given.ok()) return tell(std::move(given).error().within("wait for work"), from);
    if (given->pull) model_.parameters_changed();
    if (given->end) return end(*given->end, hooks);
    hooks.progress(*given);
    TANDEM_ASSIGN(done, compute(given->task, hooks));
  }
}

Status TaskRunner::end(const wire::PsStretchEnd& told, const Hooks& hooks) {
  exchange::Tasks& tasks = stepper_.tasks();
  const Status taken = tasks.take_last(deadline());
  model_.parameters_changed();
  // Should somebody die from now on: no task is left, so the next group goes on from here.
  if (taken.ok()) hooks.stands(outcome_of(told));
  TANDEM_TRY(tell(tasks.end_stretch(taken, told.end(), deadline()), told.end() - 1));
  return average_buffers();
}

Status TaskRunner::tell(const Status& status, std::int64_t step) const {
  if (status.ok() || status.error().code() != Code::kDiverged) return status;
  return diverged(step, status.error().message());
}

StretchOutcome TaskRunner::outcome_of(const wire::PsStretchEnd& end) {
  const auto wished = [&](Wish wish) { return (end.wish() & static_cast<unsigned>(wish)) != 0; };
  StretchOutcome outcome{
      .step = end.end(),
      .stops = wished(Wish::kStop),
      .regroups = wished(Wish::kRegroup),
      .loss = end.tally().loss(),
      .samples = end.tally().samples(),
      .staleness = {end.tally().staleness().begin(), end.tally().staleness().end()},
      .missed = {end.tally().missed().begin(), end.tally().missed().end()}};
  for (const std::int64_t task : end.tally().dropped())
    outcome.dropped_samples += std::ssize(samples_of(task));
  return outcome;
}

std::span<const std::uint32_t> TaskRunner::samples_of(std::int64_t task) {
  const std::int64_t step = task / lanes_, steps = sampler_.steps_per_epoch();
  sampler_.lane_indices(step / steps, step % steps, task % lanes_, indices_);
  return indices_;
}

Result<ps::TaskDone> TaskRunner::compute(std::int64_t task, const Hooks& hooks) {
  const std::int64_t step = task / lanes_, lane = task % lanes_;
  const std::int64_t epoch = step / sampler_.steps_per_epoch();
  const std::int64_t step_of_epoch = step % sampler_.steps_per_epoch();
  dataset_.gather(samples_of(task), batch_);
  const std::int64_t samples = std::ssize(indices_);

  exchange::Tasks& tasks = stepper_.tasks();
  auto pulled = stepper_.pull_task(batch_, task);
  if (!pulled.ok()) return std::move(pulled).error().within(fmt::format("step {}", step + 1));
  told_ = 0;
  told_status_ = {};
  model::LossSums sums;
  if (samples == 0) {
    // Counts nothing, but must be counted.
    tasks.begin(task, 0, 0);
    std::fill(tasks.gradient().begin(), tasks.gradient().end(), 0.0F);
  } else {
    // A step that is closed knows what each lane counts.
    const double share =
        quorum_ > 0
            ? 1
            : share_of(aggregate_, samples, sampler_.step_samples(epoch, step_of_epoch), lanes_);
    tasks.begin(task, hooks.lr(step) * share, samples);
    const model::LaneOutput output{tasks.gradient(), statistics_,
                                   [this](std::int64_t begin, std::int64_t) {
                                     // A norm is known only at the end.
                                     if (clip_.norm <= 0)
                                       part_ready(static_cast<std::size_t>(begin));
                                   }};
    TANDEM_ASSIGN(sums, model_.forward_backward(**pulled, 1.0F / static_cast<float>(samples),
                                                {seed_, step, lane}, output));
    if (!std::isfinite(sums.loss)) return diverged(step, "the loss is not a finite number");
    if (clip_.norm > 0) optim::clip(tasks.gradient(), clip_);
  }
  part_ready(0);
  TANDEM_TRY(tell(told_status_, step));
  // What is behind the last parameter is nothing, and always ready.
  TANDEM_TRY(tell(tasks.ready(stepper_.buckets().size() - told_), step));
  const Status finished = tell(tasks.finish(deadline()), step);
  if (!finished.ok() && finished.error().code() == Code::kDiverged) return finished.error();
  if (!finished.ok()) return Error(finished.error()).within(fmt::format("step {}", step + 1));
  model_.parameters_changed();
  if (samples > 0) stepper_.update_buffers(statistics_);
  ++computed_;
  return ps::TaskDone{.task = task, .loss = sums.loss, .samples = samples};
}

// Gradients from `begin` on are complete.
void TaskRunner::part_ready(std::size_t begin) {
  const auto buckets = stepper_.buckets();
  std::size_t more = 0;
  while (told_ + more + 1 < buckets.size() && buckets[told_ + more].begin >= begin) ++more;
  if (more == 0) return;
  told_ += more;
  if (told_status_.ok()) told_status_ = stepper_.tasks().ready(more);
}

// Each worker has seen other samples.
Status TaskRunner::average_buffers() {
  const std::span<float> buffers = model_.buffers();
  if (buffers.empty() || group_.size() == 1) return {};
  std::vector<float> sums(buffers.begin(), buffers.end());
  // Who computed nothing has nothing to say; where nobody did all have what they began with.
  const auto weight = static_cast<float>(computed_);
  for (float& value : sums) value *= weight;
  sums.push_back(weight);
  TANDEM_TRY(group_.all_reduce(sums, deadline()));
  if (sums.back() == 0) return {};
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] = sums[i] / sums.back();
  return {};
}

Error TaskRunner::diverged(std::int64_t step, const std::string& what) const {
  return Error(
      Code::kDiverged,
      fmt::format("training diverged at step {}: {}; lower train.optimizer.lr{}, add "
                  "train.clip.norm or train.schedule.warmup_steps, or look for such values "
                  "in the data",
                  step + 1, what, compensates_ ? " or ps.compensation" : ""));
}

}  // namespace tandem::train
