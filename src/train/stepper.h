// One optimizer step on lanes: forward and backward of each lane that this worker hosts, the
// exchange with the other workers that sums over all lanes in the tree's order and updates the
// parameters (exchange/exchange.h), and the running statistics. Knows nothing of files, processes
// or time. Thread-compatible; allocates nothing after the first steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "data/dataset.h"
#include "exchange/exchange.h"
#include "exchange/tasks.h"
#include "job/job.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "optim/range.h"
#include "train/aggregate.h"
#include "train/batch_rows.h"
#include "train/lane_tree.h"
#include "train/places.h"
#include "train/recipe.h"
#include "train/window.h"

namespace tandem::train {

// What a worker wants to happen after a step; of several wishes the last here counts.
enum class Wish : std::uint8_t {
  kGoOn,
  kRegroup,  // Meet again as another group.
  kStop,
};

// Whether a worker will be busy with something else after a step, for so long that the others must
// know to wait for it. Only where servers keep tables by key.
enum class Pause : std::uint8_t { kNone, kAfterStep };

struct StepOutcome {
  model::LossSums sums;
  double grad_norm = 0;        // 0 when clipping by norm is off.
  Wish wish = Wish::kGoOn;     // The same at every worker: then all do so.
  Pause pause = Pause::kNone;  // The same.
};

// Where a group begins.
struct Meeting {
  collective::LaneEnds ends = {};    // How the members share the lanes; empty: equally.
  ServerPlaces servers = {};         // Where parameter servers are, for a job that has some.
  std::int64_t steps_done = 0;       // What the model's parameters are.
  std::int64_t optimizer_steps = 0;  // What the optimizer's state is.
  std::int64_t whole_steps = 0;      // When all rows of tables were up to date.
  // What tables that servers keep by key hold after `tables_steps` steps, for servers without it.
  exchange::RecordSource tables = {};
  std::int64_t tables_steps = -1;
};

class Stepper {
 public:
  // `model` must outlive it. join() comes before the first step.
  static Result<std::unique_ptr<Stepper>> create(const job::Job& job, model::Model& model,
                                                 Trainable trainable);
  // And joins the group, which must outlive it. Every worker of the group calls this.
  static Result<std::unique_ptr<Stepper>> create(const job::Job& job, model::Model& model,
                                                 Trainable trainable, collective::Group& group);

  // Between steps, or after one that failed because of another worker: goes on with other workers.
  // leave() comes before the end of the group, join() with the next one.
  void leave();
  Status join(collective::Group& group, Meeting meeting = {});

  // Where workers do not wait for each other there are no steps, but tasks (train/task_runner.h).
  // REQUIRES: the job is so, and join() was called.
  exchange::Tasks& tasks() { return *tasks_; }
  // In the order in which they become ready; the last is behind the parameters.
  std::span<const collective::Bucket> buckets() const { return plan_.reduce.buckets; }
  // What a task shall read instead of its batch, until the next call: where has_rows(), its rows
  // have come into the model. Comes before the task begins.
  Result<const data::Batch*> pull_task(const data::Batch& batch, std::int64_t task);
  // Running statistics take in those of a batch.
  void update_buffers(std::span<const float> statistics);

  // The lanes that this worker computes.
  collective::LaneRange lanes() const { return hosted_; }
  // Seconds that forward and backward of a lane took on average since the last call; 0: there was
  // none. What other workers do does not matter to it.
  double take_lane_seconds();
  // Between steps: for checkpoints.
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Passed on to the other workers in the next step.
  void wish(Wish wish, Pause pause = Pause::kNone) {
    wish_ = wish;
    pause_ = pause;
  }

  // Whether a step must know its batches before it begins: add_rows() is then to be called for each
  // hosted lane, and only complete() brings all parameters up to date.
  bool has_rows() const {
    return tasks_ ? tasks_->has_rows() : exchange_ != nullptr && exchange_->has_rows();
  }
  void add_rows(const data::Batch& batch, std::int64_t lane);

  // The step after `step` steps begins, with this learning rate. REQUIRES: a step that is_pending()
  // is the one before it.
  Status begin_step(std::int64_t step, double lr);
  // Call for each hosted lane in order, with its batch of the step (which may be empty), then
  // finish_step().
  Status run_lane(const data::Batch& batch, std::int64_t lane, std::int64_t step_samples);

  // kDiverged, with the tensor's name, when the loss, the gradient's norm or an updated parameter
  // is not finite; the model is then of no more use. kPeerLost or kTimeout, with the worker's name,
  // when the sum did not come together; the model is then as before the step.
  Result<StepOutcome> finish_step();

  // Instead of it, where nothing comes between this step and the next, whose first forward then
  // runs while results are still on their way: waits until it is known what the workers wish. False
  // when they wish something or all results are there; finish_step() must follow. Otherwise the
  // step is_pending() until take_settled() gives its outcome, after run_lane() of the next step's
  // first lane. When that fails first, the model is as before the step that was pending.
  Result<bool> leave_pending();
  bool is_pending() const { return pending_.has_value(); }
  std::optional<StepOutcome> take_settled() { return std::exchange(settled_, std::nullopt); }

  // Between steps, after `steps_done` of them: optimizer() gets its state from the servers, where
  // they have it. One worker may do this while the others do not.
  Status fetch_state(std::int64_t steps_done);
  // The same for the model's parameters, where has_rows().
  Status complete(std::int64_t steps_done);
  // Where servers keep tables by key, between steps: the rows of the batch come into the model, and
  // what it shall read instead is given, until the next call.
  Result<const data::Batch*> look_up(const data::Batch& batch, std::int64_t steps_done);
  // There, too: all that the tables hold, and how large they are.
  Status read_tables(std::int64_t steps_done, const exchange::RecordSink& sink);
  Result<std::vector<exchange::TableSize>> table_sizes();
  // What the exchange has moved besides the group's own.
  collective::Traffic traffic() const;

 private:
  struct SummedStep {
    std::int64_t step = 0;       // By those done before it.
    float statistics_scale = 1;  // What the sum of the lanes' statistics is to be multiplied by.
  };

  Stepper(const job::Job& job, model::Model& model, Trainable trainable,
          std::unique_ptr<optim::Optimizer> optimizer);

  Result<model::LossSums> compute(const data::Batch& batch, std::int64_t lane,
                                  std::int64_t step_samples, std::span<float> memory);
  float scale_of(std::int64_t samples, std::int64_t step_samples);
  // Waits, in a step's first lane, until its partial sums may be written.
  Status make_room();
  void part_ready(std::size_t begin, std::size_t end);
  void tail_ready(std::int64_t lane, const model::LossSums& sums, std::span<float> memory);
  StepOutcome read_tail();
  Result<StepOutcome> settle(const SummedStep& step);
  // Of the step that is pending, while the next one runs forward: parameters up to `end` are
  // needed; all of it, before the next one writes anything.
  void pending_needed(std::size_t end);
  void settle_pending();
  void drop_pending();
  void reset();
  void update_statistics(float scale);
  // After `step` steps.
  Error diverged(std::int64_t step, double loss);

  // Constant after construction.
  const std::uint64_t seed_;
  const std::vector<optim::Range> live_buffers_;
  const std::int64_t all_lanes_;
  const std::chrono::milliseconds patience_;
  // The vector that is summed: gradients, statistics, then what the lanes tell.
  const std::size_t parameters_, tail_, wishes_, pauses_, floats_;
  const std::string transport_;
  const Aggregate aggregate_;
  const std::optional<ps::AsyncRule> async_;
  const std::size_t replicas_;
  BatchRows rows_;
  Window window_;
  exchange::Plan plan_;

  model::Model& model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  // Of the group that it is in.
  collective::LaneRange hosted_;
  std::unique_ptr<exchange::Exchange> exchange_;
  std::unique_ptr<exchange::Tasks> tasks_;    // Instead of it.
  std::vector<LaneTree> trees_;               // One for each partial sum.
  std::vector<collective::LaneRange> nodes_;  // Their lanes.
  std::vector<float> told_sums_, statistics_;
  Wish wish_ = Wish::kGoOn;
  Pause pause_ = Pause::kNone;
  std::chrono::steady_clock::duration computed_{};
  std::int64_t computed_lanes_ = 0;

  // The step of which not everything has come when the next one begins.
  std::optional<SummedStep> pending_;
  std::optional<StepOutcome> settled_;  // What came of it.
  std::chrono::steady_clock::duration waited_{};

  // Of the step that is under way.
  std::int64_t step_ = 0;
  double lr_ = 0;
  float statistics_scale_ = 1;  // As SummedStep's.
  bool has_room_ = false;       // For partial sums.
  std::size_t tree_ = 0;        // Where the current lane belongs.
  std::size_t final_from_ = 0;  // Gradients from here on are complete.
  std::size_t told_ = 0;        // Buckets that the exchange was told of.
  Status told_status_;          // What it said.
};

}  // namespace tandem::train
