#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rows.h"
#include "base/span_math.h"
#include "exchange/allreduce.h"
#include "exchange/servers.h"
#include "train/buckets.h"
#include "train/lane_sums.h"
#include "train/recipe.h"

namespace tandem::train {
namespace {

// Behind the lanes' sums: how many workers have each wish but the first.
constexpr std::size_t kWishFloats = 2;
// Behind those, where servers keep tables by key: how many will be busy after the step.
constexpr std::size_t kPauseFloats = 1;

std::optional<ps::AsyncRule> async_rule(const job::Job& job) {
  if (!job.is_async()) return std::nullopt;
  return ps::AsyncRule{
      .stale_lr = job.ps.stale_lr == "lowered" ? ps::StaleRate::kLowered : ps::StaleRate::kKept,
      .compensation = job.ps.compensation,
      .applying = job.ps.consistency == "bsp" ? ps::Applying::kWhenClosed : ps::Applying::kAtOnce};
}

// Of tables that the model has windows on: as model/model.h would begin all their rows.
std::vector<exchange::SparseRows> sparse_rows(const arch::Blueprint& blueprint,
                                              std::uint64_t seed) {
  std::vector<exchange::SparseRows> sparse;
  if (blueprint.window == 0) return sparse;
  for (const arch::Table& table : blueprint.tables) {
    const arch::Slot& slot = blueprint.slots[static_cast<std::size_t>(table.slot)];
    sparse.push_back({static_cast<std::uint64_t>(table.all_rows), table_seed(seed, slot.name),
                      slot.fill == arch::Fill::kRows ? slot.scale : 0});
  }
  return sparse;
}

}  // namespace

Result<std::unique_ptr<Stepper>> Stepper::create(const job::Job& job, model::Model& model,
                                                 Trainable trainable) {
  TANDEM_ASSIGN(auto optimizer,
                optim::Optimizer::create(job.train.optimizer, model.blueprint().parameters));
  return std::unique_ptr<Stepper>(
      new Stepper(job, model, std::move(trainable), std::move(optimizer)));
}

Result<std::unique_ptr<Stepper>> Stepper::create(const job::Job& job, model::Model& model,
                                                 Trainable trainable, collective::Group& group) {
  TANDEM_ASSIGN(std::unique_ptr<Stepper> stepper, create(job, model, std::move(trainable)));
  TANDEM_TRY(stepper->join(group));
  return stepper;
}

void Stepper::leave() {
  drop_pending();
  settled_.reset();
  trees_.clear();
  exchange_.reset();
  tasks_.reset();
}

Status Stepper::join(collective::Group& group, Meeting meeting) {
  leave();
  reset();
  wish_ = Wish::kGoOn;
  pause_ = Pause::kNone;
  plan_.reduce.ends = std::move(meeting.ends);
  hosted_ = collective::hosted_lanes(collective::ends_of(plan_.reduce, group.size()), group.rank());
  const collective::Deadline deadline = collective::deadline_after(patience_);
  if (meeting.servers.endpoints.empty()) {
    TANDEM_ASSIGN(exchange_, exchange::make_allreduce(plan_, group, *optimizer_, deadline));
  } else {
    const exchange::ServersConfig config{.servers = meeting.servers.endpoints,
                                         .former = meeting.servers.former,
                                         .replicas = replicas_,
                                         .token = meeting.servers.token,
                                         .tls = meeting.servers.tls,
                                         .transport = transport_,
                                         .generation = meeting.servers.generation,
                                         .steps_done = meeting.steps_done,
                                         .optimizer_steps = meeting.optimizer_steps,
                                         .parameters_steps = meeting.whole_steps,
                                         .tables = std::move(meeting.tables),
                                         .tables_steps = meeting.tables_steps,
                                         .async = async_};
    if (async_) {
      TANDEM_ASSIGN(tasks_, exchange::Tasks::create(plan_, config, group, model_.parameters(),
                                                    *optimizer_, deadline));
      return {};
    }
    TANDEM_ASSIGN(exchange_, exchange::make_servers(plan_, config, group, model_.parameters(),
                                                    *optimizer_, deadline));
  }
  nodes_ = collective::maximal_nodes(all_lanes_, hosted_);
  TANDEM_CHECK(nodes_.size() == exchange_->partials());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    trees_.emplace_back(nodes_[i].size(), exchange_->partial(i));
  rows_.clear(nodes_.size());
  window_.clear();
  return {};
}

void Stepper::reset() {
  has_room_ = false;
  tree_ = 0;
  final_from_ = parameters_;
  told_ = 0;
  told_status_ = {};
}

Stepper::Stepper(const job::Job& job, model::Model& model, Trainable trainable,
                 std::unique_ptr<optim::Optimizer> optimizer)
    : seed_(job.train.seed),
      live_buffers_(std::move(trainable.buffers)),
      all_lanes_(job.lanes()),
      patience_(patience_of(job.cluster)),
      parameters_(static_cast<std::size_t>(model.blueprint().parameters)),
      tail_(parameters_ + static_cast<std::size_t>(model.blueprint().buffers)),
      wishes_(tail_ + static_cast<std::size_t>(all_lanes_) * kLaneSumFloats),
      pauses_(wishes_ + kWishFloats),
      floats_(job.is_async()                  ? parameters_
              : model.blueprint().window == 0 ? pauses_
                                              : pauses_ + kPauseFloats),
      transport_(job.ps.transport),
      aggregate_(job.has_servers() ? aggregate_of(job.ps.aggregate) : Aggregate::kWeighted),
      async_(async_rule(job)),
      replicas_(static_cast<std::size_t>(job.cluster.replicas)),
      rows_(model.blueprint(), trainable.parameters),
      window_(model.blueprint()),
      plan_{{all_lanes_, floats_, make_buckets(parameters_, floats_, job.cluster.bucket_bytes),
             /*in_pieces=*/job.train.clip.value <= 0 && job.train.clip.norm <= 0, patience_},
            parameters_,
            std::move(trainable.parameters),
            job.train.optimizer,
            job.train.clip,
            job.ps.pull == "partial" || window_.is_open() ? exchange::Pull::kPartial
                                                          : exchange::Pull::kFull,
            rows_.tables(),
            sparse_rows(model.blueprint(), job.train.seed),
            job.ps.admit_after,
            job.ps.evict_after},
      model_(model),
      optimizer_(std::move(optimizer)),
      told_sums_(pauses_ + kPauseFloats - tail_),
      statistics_(tail_ - parameters_) {}

void Stepper::add_rows(const data::Batch& batch, std::int64_t lane) {
  const auto node =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& each) { return lane < each.end; });
  TANDEM_CHECK(node != nodes_.end());
  rows_.add(batch, static_cast<std::size_t>(node - nodes_.begin()));
  window_.add(batch);
}

Status Stepper::begin_step(std::int64_t step, double lr) {
  step_ = step;
  lr_ = lr;
  if (pending_) {
    TANDEM_CHECK(pending_->step + 1 == step);
    // What came is read as soon as it is needed: from now on.
    model_.parameters_changed();
    return {};
  }
  if (has_rows()) {
    const collective::Deadline deadline = collective::deadline_after(patience_);
    TANDEM_TRY(exchange_->pull(step, rows_.lists(), model_.parameters(), deadline));
    rows_.clear(nodes_.size());
    window_.rows();
    model_.parameters_changed();
  }
  TANDEM_TRY(exchange_->begin(step, lr));
  for (std::size_t i = 0; i < trees_.size(); ++i) trees_[i].move_to(exchange_->partial(i));
  return {};
}

Result<const data::Batch*> Stepper::pull_task(const data::Batch& batch, std::int64_t task) {
  if (!has_rows()) return &batch;
  rows_.clear(1);
  rows_.add(batch, 0);
  window_.clear();
  window_.add(batch);
  TANDEM_TRY(tasks_->pull_rows(task, rows_.lists().front(), collective::deadline_after(patience_)));
  window_.rows();
  model_.parameters_changed();
  return window_.is_open() ? &window_.place(batch) : &batch;
}

Status Stepper::run_lane(const data::Batch& batch, std::int64_t lane, std::int64_t step_samples) {
  LaneTree& tree = trees_[tree_];
  const std::span<float> memory = tree.next();
  // Statistics are a mean whatever gradients are.
  if (aggregate_ == Aggregate::kSum)
    statistics_scale_ = 1.0F / static_cast<float>(std::min(all_lanes_, step_samples));
  const bool last = tree.is_last();
  model::LossSums sums;
  if (batch.size == 0) {
    settle_pending();
    TANDEM_TRY(make_room());
    waited_ = {};  // No lane of this worker took part in it.
    std::fill(memory.begin(), memory.end(), 0.0F);
    if (last) part_ready(0, parameters_);
  } else {
    TANDEM_ASSIGN(sums, compute(batch, lane, step_samples, memory));
  }
  tail_ready(lane, sums, memory);
  if (last) {
    tree.finish();
    ++tree_;
  } else {
    tree.push();
  }
  // What is no number is not pushed by rows. A step that was pending has said so itself.
  if (!pending_ && !told_status_.ok() && told_status_.error().code() == Code::kDiverged)
    return diverged(step_, 0);
  return told_status_;
}

Result<model::LossSums> Stepper::compute(const data::Batch& batch, std::int64_t lane,
                                         std::int64_t step_samples, std::span<float> memory) {
  model::LaneOutput output{
      memory.first(parameters_), memory.subspan(parameters_, tail_ - parameters_), {}};
  if (pending_) {
    output.needs = [this](std::int64_t, std::int64_t end) {
      pending_needed(static_cast<std::size_t>(end));
    };
  }
  output.turns = [this] {
    settle_pending();
    return told_status_.ok() ? make_room() : told_status_;
  };
  if (trees_[tree_].is_last()) {
    output.ready = [this](std::int64_t begin, std::int64_t end) {
      part_ready(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    };
  }
  const data::Batch& read = window_.is_open() ? window_.place(batch) : batch;
  const auto begin = std::chrono::steady_clock::now();
  auto sums = model_.forward_backward(read, scale_of(batch.size, step_samples),
                                      {seed_, step_, lane}, output);
  computed_ += std::chrono::steady_clock::now() - begin - std::exchange(waited_, {});
  ++computed_lanes_;
  return sums;
}

Status Stepper::make_room() {
  if (has_room_) return {};
  if (!exchange_->has_room()) {
    const auto begin = std::chrono::steady_clock::now();
    TANDEM_TRY(exchange_->make_room(collective::deadline_after(patience_)));
    waited_ += std::chrono::steady_clock::now() - begin;
  }
  has_room_ = true;
  return {};
}

float Stepper::scale_of(std::int64_t samples, std::int64_t step_samples) {
  if (aggregate_ == Aggregate::kWeighted) return 1.0F / static_cast<float>(step_samples);
  const double share = share_of(aggregate_, samples, step_samples, all_lanes_);
  return static_cast<float>(share / static_cast<double>(samples));
}

double Stepper::take_lane_seconds() {
  const double seconds = std::chrono::duration<double>(std::exchange(computed_, {})).count();
  const std::int64_t lanes = std::exchange(computed_lanes_, 0);
  return lanes == 0 ? 0 : seconds / static_cast<double>(lanes);
}

// Gradients [begin, end) of a tree's last lane are complete. Once that is so for the last tree too,
// the exchange hears of every bucket in them.
void Stepper::part_ready(std::size_t begin, std::size_t end) {
  trees_[tree_].push_last(begin, end);
  if (tree_ + 1 < trees_.size()) return;
  TANDEM_CHECK(end == final_from_);  // Backward goes from the last block to the first.
  final_from_ = begin;
  std::size_t more = 0;
  while (told_ + more + 1 < plan_.reduce.buckets.size() &&
         plan_.reduce.buckets[told_ + more].begin >= final_from_)
    ++more;
  if (more == 0) return;
  told_ += more;
  if (told_status_.ok()) told_status_ = exchange_->ready(more);
}

// What follows the gradients, which ends the lane.
void Stepper::tail_ready(std::int64_t lane, const model::LossSums& sums, std::span<float> memory) {
  const std::span<float> tail = memory.subspan(tail_);
  std::fill(tail.begin(), tail.end(), 0.0F);
  encode_sums(sums, tail.subspan(static_cast<std::size_t>(lane) * kLaneSumFloats, kLaneSumFloats));
  const bool last_of_all = lane + 1 == hosted_.end;
  if (last_of_all && wish_ != Wish::kGoOn)
    tail[wishes_ - tail_ + static_cast<std::size_t>(wish_) - 1] = 1;
  if (last_of_all && pause_ != Pause::kNone && window_.is_open()) tail[pauses_ - tail_] = 1;
  if (!trees_[tree_].is_last()) return;
  trees_[tree_].push_last(parameters_, floats_);
  if (last_of_all && told_status_.ok())
    told_status_ = exchange_->ready(plan_.reduce.buckets.size() - told_);
}

StepOutcome Stepper::read_tail() {
  exchange_->take({tail_, floats_}, told_sums_);
  StepOutcome outcome;
  for (std::int64_t lane = 0; lane < all_lanes_; ++lane) {
    outcome.sums.add(
        decode_sums(std::span<const float>(told_sums_)
                        .subspan(static_cast<std::size_t>(lane) * kLaneSumFloats, kLaneSumFloats)));
  }
  for (const Wish wish : {Wish::kRegroup, Wish::kStop}) {
    if (told_sums_[wishes_ - tail_ + static_cast<std::size_t>(wish) - 1] > 0) outcome.wish = wish;
  }
  if (window_.is_open() && told_sums_[pauses_ - tail_] > 0) outcome.pause = Pause::kAfterStep;
  return outcome;
}

void Stepper::update_statistics(float scale) {
  exchange_->take({parameters_, tail_}, statistics_);
  if (scale != 1) {
    for (float& value : statistics_) value *= scale;
  }
  update_buffers(statistics_);
}

void Stepper::update_buffers(std::span<const float> statistics) {
  for (const optim::Range& range : live_buffers_) {
    const auto begin = static_cast<std::size_t>(range.begin);
    const auto count = static_cast<std::size_t>(range.end - range.begin);
    model::update_buffers(model_.buffers().subspan(begin, count), statistics.subspan(begin, count));
  }
}

Result<StepOutcome> Stepper::finish_step() {
  reset();
  window_.clear();
  return settle({step_, statistics_scale_});
}

Result<StepOutcome> Stepper::settle(const SummedStep& summed) {
  const std::int64_t step = summed.step;
  Status gathered = exchange_->gather(collective::deadline_after(patience_));
  if (!gathered.ok()) return std::move(gathered).error().within(fmt::format("step {}", step + 1));
  StepOutcome outcome = read_tail();
  if (!std::isfinite(outcome.sums.loss)) return diverged(step, outcome.sums.loss);
  const exchange::Update update = exchange_->update(model_.parameters());
  if (update.updated == optim::Updated::kNotFinite) return diverged(step, outcome.sums.loss);
  update_statistics(summed.statistics_scale);
  exchange_->end();
  model_.parameters_changed();
  outcome.grad_norm = update.norm;
  return outcome;
}

Status Stepper::fetch_state(std::int64_t steps_done) {
  if (tasks_) return tasks_->fetch_state(steps_done, collective::deadline_after(patience_));
  return exchange_->fetch_state(steps_done, collective::deadline_after(patience_));
}

Status Stepper::complete(std::int64_t steps_done) {
  if (!has_rows()) return {};
  const collective::Deadline deadline = collective::deadline_after(patience_);
  TANDEM_TRY(tasks_ ? tasks_->complete(steps_done, deadline)
                    : exchange_->complete(steps_done, model_.parameters(), deadline));
  model_.parameters_changed();
  return {};
}

Result<const data::Batch*> Stepper::look_up(const data::Batch& batch, std::int64_t steps_done) {
  window_.clear();
  window_.add(batch);
  const collective::Deadline deadline = collective::deadline_after(patience_);
  TANDEM_TRY(tasks_
                 ? tasks_->read_rows(steps_done, window_.rows(), deadline)
                 : exchange_->read_rows(steps_done, window_.rows(), model_.parameters(), deadline));
  model_.parameters_changed();
  const data::Batch* const placed = &window_.place(batch);
  window_.clear();
  return placed;
}

Status Stepper::read_tables(std::int64_t steps_done, const exchange::RecordSink& sink) {
  const collective::Deadline deadline = collective::deadline_after(patience_);
  return tasks_ ? tasks_->read_tables(steps_done, sink, deadline)
                : exchange_->read_tables(steps_done, sink, deadline);
}

Result<std::vector<exchange::TableSize>> Stepper::table_sizes() {
  if (!window_.is_open()) return std::vector<exchange::TableSize>();
  const collective::Deadline deadline = collective::deadline_after(patience_);
  return tasks_ ? tasks_->table_sizes(deadline) : exchange_->table_sizes(deadline);
}

collective::Traffic Stepper::traffic() const {
  if (tasks_) return tasks_->traffic();
  return exchange_ == nullptr ? collective::Traffic() : exchange_->traffic();
}

Error Stepper::diverged(std::int64_t step, double loss) {
  std::vector<float> gradients(parameters_);
  exchange_->take({0, parameters_}, gradients);
  constexpr const char* kAdvice =
      "lower train.optimizer.lr, add train.clip.norm (train.clip.value with sparse tables) or "
      "train.schedule.warmup_steps, or look for such values in the data";
  const auto parameters = std::span<const float>(model_.parameters());
  const auto name = [&](std::size_t index) {
    return slot_at(model_.blueprint(), arch::SlotKind::kParameter, static_cast<std::int64_t>(index))
        .name;
  };
  std::string what = "the loss is not a finite number";
  if (const std::size_t bad = first_not_finite(gradients); bad < parameters_) {
    what = fmt::format("the gradient of `{}` is {}", name(bad), gradients[bad]);
  } else if (const std::size_t worse = first_not_finite(parameters); worse < parameters.size()) {
    what = fmt::format("the update made `{}` {}", name(worse), parameters[worse]);
  } else if (window_.is_open() && std::isfinite(loss)) {
    what = "the update of a row of a table is not a finite number";
  }
  return Error(Code::kDiverged,
               fmt::format("training diverged at step {}: {}; {}", step + 1, what, kAdvice));
}

}  // namespace tandem::train
