#include "ps/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ps/dispenser.h"
#include "ps/scope.h"

namespace tandem::ps {
namespace {

constexpr std::uint64_t kMostFloats = std::uint64_t{1} << 40;
constexpr int kMostMembers = 1 << 12;
constexpr int kMostTables = 1 << 10;
// A kPushRows names its list in 16 bits (ps/message.h).
constexpr std::size_t kMostLists = std::size_t{1} << 16;
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 32;

Error wrong(const std::string& what) {
  return Error(Code::kInvalidArgument, "the plan of a worker makes no sense: " + what);
}

// From the last parameter to the first, then all that is only summed.
Status check_buckets(const Plan& plan) {
  if (plan.buckets.empty()) return wrong("no buckets");
  std::size_t end = plan.parameters;
  for (std::size_t i = 0; i + 1 < plan.buckets.size(); ++i) {
    if (plan.buckets[i].end != end || plan.buckets[i].begin > end)
      return wrong("the order of buckets");
    end = plan.buckets[i].begin;
  }
  const Bucket& last = plan.buckets.back();
  if (end != 0 || last.begin != plan.parameters || last.end != plan.floats)
    return wrong("buckets that do not cover the vector once");
  return {};
}

Status check_numbers(const Plan& plan) {
  const optim::OptimizerConfig& optimizer = plan.optimizer;
  for (const double number :
       {optimizer.lr, optimizer.momentum, optimizer.beta1, optimizer.beta2, optimizer.epsilon,
        optimizer.weight_decay, optimizer.l1, plan.clip.norm, plan.clip.value}) {
    if (!std::isfinite(number) || number < 0) return wrong("a number of the optimizer");
  }
  return {};
}

Status check_lanes(const Plan& plan) {
  std::int64_t before = 0;
  for (const std::int64_t end : plan.ends) {
    if (end <= before) return wrong("a worker without lanes");
    before = end;
  }
  if (plan.ends.empty() || before != plan.lanes) return wrong("lanes that nobody computes");
  return {};
}

// A worker has a list for what it pulls and one for each of its partial sums, of each table.
Status check_lists(const Plan& plan) {
  if (plan.tables.empty()) return {};
  std::vector<std::size_t> lists(plan.workers(), plan.tables.size());
  for (const collective::Partial& partial : collective::partials_of(plan.ends))
    lists[static_cast<std::size_t>(partial.worker)] += plan.tables.size();
  const std::size_t most = *std::max_element(lists.begin(), lists.end());
  if (most <= kMostLists) return {};
  return wrong(
      fmt::format("a worker has {} lists of rows, and {} can be told apart; use fewer "
                  "lanes, or pull = \"full\"",
                  most, kMostLists));
}

// Windows of rows are first in the vector, one behind the other.
Status read_sparse(const wire::PsPlan& message, Plan& plan) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < plan.tables.size(); ++i) {
    const wire::PsTable& each = message.tables(static_cast<int>(i));
    if (each.has_sparse() != message.tables(0).has_sparse())
      return wrong("how its tables are kept");
    if (!each.has_sparse()) continue;
    const wire::PsSparseRows& sparse = each.sparse();
    if (plan.tables[i].begin != end || sparse.keys() < plan.tables[i].rows ||
        sparse.keys() > kMostRows || !std::isfinite(sparse.scale()) || sparse.scale() < 0)
      return wrong("the windows of its tables");
    end = plan.tables[i].end();
    plan.sparse.push_back({sparse.keys(), sparse.seed(), sparse.scale()});
  }
  plan.admit_after = message.admit_after();
  plan.evict_after = message.evict_after();
  if (plan.admit_after < 0 || plan.admit_after >= kMostStep || plan.evict_after < 0 ||
      plan.evict_after > kMostStep)
    return wrong("when rows are made and given up");
  if (plan.is_sparse() && plan.clip.norm > 0)
    return wrong("what tables that are kept by key cannot have");
  return {};
}

// What comes is bounded before it is multiplied.
Status read_tables(const wire::PsPlan& message, Plan& plan) {
  if (message.pull() > static_cast<std::uint32_t>(Pull::kPartial)) return wrong("what is pulled");
  plan.pull = static_cast<Pull>(message.pull());
  if (message.tables_size() > kMostTables) return wrong("its number of tables");
  std::size_t end = 0;
  for (const wire::PsTable& each : message.tables()) {
    const std::uint64_t rows = each.rows(), width = each.width(), begin = each.begin();
    if (rows == 0 || rows > kMostRows || width == 0 || width > std::uint64_t{kMostWidth} ||
        begin < end || begin > plan.parameters || rows > (plan.parameters - begin) / width)
      return wrong("where its tables lie");
    const Table table{begin, rows, width};
    end = table.end();
    const bool trained =
        std::any_of(plan.trainable.begin(), plan.trainable.end(), [&](const optim::Range& range) {
          return static_cast<std::size_t>(range.begin) <= table.begin &&
                 table.end() <= static_cast<std::size_t>(range.end);
        });
    if (!trained) return wrong("a table that is not trained");
    plan.tables.push_back(table);
  }
  if (!plan.tables.empty() && plan.pull != Pull::kPartial)
    return wrong("tables where all is pulled");
  TANDEM_TRY(read_sparse(message, plan));
  return check_lists(plan);
}

}  // namespace

wire::PsPlan to_wire(const Plan& plan, const SliceCopy& which, std::size_t servers) {
  wire::PsPlan message;
  message.set_generation(plan.generation);
  message.set_workers(static_cast<int>(plan.workers()));
  message.set_server(static_cast<int>(which.slice));
  message.set_servers(static_cast<int>(servers));
  message.set_floats(plan.floats);
  message.set_parameters(plan.parameters);
  for (const Bucket& bucket : plan.buckets) {
    wire::PsRange& range = *message.add_buckets();
    range.set_begin(bucket.begin);
    range.set_end(bucket.end);
  }
  for (const optim::Range& trained : plan.trainable) {
    wire::PsRange& range = *message.add_trainable();
    range.set_begin(static_cast<std::uint64_t>(trained.begin));
    range.set_end(static_cast<std::uint64_t>(trained.end));
  }
  wire::PsOptimizer& optimizer = *message.mutable_optimizer();
  optimizer.set_kind(static_cast<int>(plan.optimizer.kind));
  optimizer.set_lr(plan.optimizer.lr);
  optimizer.set_momentum(plan.optimizer.momentum);
  optimizer.set_nesterov(plan.optimizer.nesterov);
  optimizer.set_beta1(plan.optimizer.beta1);
  optimizer.set_beta2(plan.optimizer.beta2);
  optimizer.set_epsilon(plan.optimizer.epsilon);
  optimizer.set_weight_decay(plan.optimizer.weight_decay);
  optimizer.set_l1(plan.optimizer.l1);
  optimizer.set_clip_norm(plan.clip.norm);
  optimizer.set_clip_value(plan.clip.value);
  message.set_lanes(plan.lanes);
  for (const std::int64_t end : plan.ends) message.add_lane_ends(end);
  if (plan.async) {
    wire::PsAsync& async = *message.mutable_async();
    async.set_lowers_stale_lr(plan.async->stale_lr == StaleRate::kLowered);
    async.set_compensation(plan.async->compensation);
    async.set_collects(plan.async->applying == Applying::kWhenClosed);
  }
  if (plan.replicas > 1) {
    message.set_copy(static_cast<int>(which.copy));
    message.set_replicas(static_cast<int>(plan.replicas));
  }
  message.set_pull(static_cast<std::uint32_t>(plan.pull));
  for (const Table& table : plan.tables) {
    wire::PsTable& each = *message.add_tables();
    each.set_begin(table.begin);
    each.set_rows(table.rows);
    each.set_width(table.width);
  }
  for (std::size_t i = 0; i < plan.sparse.size(); ++i) {
    wire::PsSparseRows& each = *message.mutable_tables(static_cast<int>(i))->mutable_sparse();
    each.set_keys(plan.sparse[i].keys);
    each.set_seed(plan.sparse[i].seed);
    each.set_scale(plan.sparse[i].scale);
  }
  message.set_admit_after(plan.admit_after);
  message.set_evict_after(plan.evict_after);
  return message;
}

Result<Plan> from_wire(const wire::PsPlan& message) {
  const bool members = message.workers() > 0 && message.workers() <= kMostMembers &&
                       message.servers() > 0 && message.servers() <= kMostMembers &&
                       message.server() >= 0 && message.server() < message.servers();
  if (!members || message.lane_ends_size() != message.workers()) return wrong("its members");
  const int replicas = std::max(1, message.replicas());
  if (replicas > std::min<int>(kMostCopies, message.servers()) || message.copy() < 0 ||
      message.copy() >= replicas)
    return wrong("its copies");
  if (message.floats() > kMostFloats || message.parameters() > message.floats())
    return wrong(fmt::format("{} parameters in {} floats", message.parameters(), message.floats()));
  Plan plan;
  plan.generation = message.generation();
  plan.floats = message.floats();
  plan.parameters = message.parameters();
  for (const wire::PsRange& range : message.buckets())
    plan.buckets.push_back({range.begin(), range.end()});
  TANDEM_TRY(check_buckets(plan));
  std::uint64_t last = 0;
  for (const wire::PsRange& range : message.trainable()) {
    if (range.begin() < last || range.end() <= range.begin() || range.end() > plan.parameters)
      return wrong("what is trained");
    last = range.end();
    plan.trainable.push_back(
        {static_cast<std::int64_t>(range.begin()), static_cast<std::int64_t>(range.end())});
  }
  const wire::PsOptimizer& optimizer = message.optimizer();
  if (optimizer.kind() < 0 || optimizer.kind() > static_cast<int>(optim::OptimizerKind::kAdagrad))
    return wrong("its optimizer");
  plan.optimizer = {.kind = static_cast<optim::OptimizerKind>(optimizer.kind()),
                    .lr = optimizer.lr(),
                    .momentum = optimizer.momentum(),
                    .nesterov = optimizer.nesterov(),
                    .beta1 = optimizer.beta1(),
                    .beta2 = optimizer.beta2(),
                    .epsilon = optimizer.epsilon(),
                    .weight_decay = optimizer.weight_decay(),
                    .l1 = optimizer.l1()};
  plan.clip = {optimizer.clip_norm(), optimizer.clip_value()};
  TANDEM_TRY(check_numbers(plan));
  plan.replicas = static_cast<std::size_t>(replicas);
  plan.lanes = message.lanes();
  plan.ends.assign(message.lane_ends().begin(), message.lane_ends().end());
  TANDEM_TRY(check_lanes(plan));
  TANDEM_TRY(read_tables(message, plan));
  if (message.has_async()) {
    const wire::PsAsync& async = message.async();
    if (!std::isfinite(async.compensation()) || async.compensation() < 0)
      return wrong("its compensation of delays");
    const bool ordered = plan.replicas > 1 || async.collects();
    if ((!plan.tables.empty() && ordered) || plan.floats != plan.parameters || plan.clip.norm > 0 ||
        plan.lanes > kMostTasks)
      return wrong("what workers that do not wait for each other cannot have");
    plan.async = {.stale_lr = async.lowers_stale_lr() ? StaleRate::kLowered : StaleRate::kKept,
                  .compensation = async.compensation(),
                  .applying = async.collects() ? Applying::kWhenClosed : Applying::kAtOnce};
  }
  return plan;
}

SliceConfig slice_of(const Plan& plan, std::size_t slice, std::size_t servers) {
  return {slices_of(plan, servers)[slice], plan.parameters, plan.trainable, plan.optimizer,
          plan.clip};
}

TableSetConfig tables_of(const Plan& plan, std::size_t slice, std::size_t servers) {
  TableSetConfig config;
  config.share = {slice, servers};
  for (std::size_t i = 0; i < plan.sparse.size(); ++i) {
    config.tables.push_back({.width = static_cast<std::int64_t>(plan.tables[i].width),
                             .optimizer = plan.optimizer,
                             .seed = plan.sparse[i].seed,
                             .init_scale = plan.sparse[i].scale,
                             .admit_after = plan.admit_after,
                             .evict_after = plan.evict_after});
    config.keys.push_back(plan.sparse[i].keys);
  }
  return config;
}

bool is_same_slice(const SliceConfig& a, const SliceConfig& b) {
  // The rate comes with every step.
  const auto rule = [](const optim::OptimizerConfig& o) {
    return std::tuple(o.kind, o.momentum, o.nesterov, o.beta1, o.beta2, o.epsilon, o.weight_decay,
                      o.l1);
  };
  return a.slice.begin == b.slice.begin && a.slice.end == b.slice.end &&
         a.parameters == b.parameters && a.trainable == b.trainable &&
         rule(a.optimizer) == rule(b.optimizer) && a.clip.norm == b.clip.norm &&
         a.clip.value == b.clip.value;
}

}  // namespace tandem::ps
