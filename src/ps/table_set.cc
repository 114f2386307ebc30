#include "ps/table_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <tuple>
#include <utility>

#include "base/hash.h"

namespace tandem::ps {
namespace {

// Bytes of a message of records, about: at least one record.
constexpr std::size_t kRecordBytes = std::size_t{1} << 20;
// Places that a step looks at, besides those that it must to see each in time.
constexpr std::int64_t kLeastSweep = 1024;

Error refused(std::string message) {
  return Error(Code::kInvalidArgument, "refused records: " + std::move(message));
}

auto facts(const SparseTableConfig& table) {
  // The rate comes with every step.
  const optim::OptimizerConfig& o = table.optimizer;
  return std::tuple(table.width, o.kind, o.momentum, o.nesterov, o.beta1, o.beta2, o.epsilon,
                    o.weight_decay, o.l1, table.seed, table.init_scale, table.admit_after,
                    table.evict_after);
}

}  // namespace

bool is_same_set(const TableSetConfig& a, const TableSetConfig& b) {
  return a.share == b.share && a.keys == b.keys &&
         std::ranges::equal(a.tables, b.tables, {}, facts, facts);
}

Result<std::unique_ptr<TableSet>> TableSet::create(TableSetConfig config) {
  auto set = std::unique_ptr<TableSet>(new TableSet(std::move(config)));
  TANDEM_TRY(set->make_tables());
  return set;
}

Status TableSet::make_tables() {
  tables_.clear();
  for (const SparseTableConfig& each : config_.tables) {
    TANDEM_ASSIGN(SparseTable table, SparseTable::create(each));
    tables_.push_back(std::move(table));
  }
  return {};
}

bool TableSet::has(std::int64_t step) const {
  if (loading_) return false;
  return step >= 0 && (step == step_ || (can_go_back_ && step + 1 == step_));
}

Status TableSet::use(std::int64_t step) {
  if (loading_ == step) {
    loading_.reset();
    step_ = step;
    return {};
  }
  if (!has(step))
    return Error(Code::kNotFound, fmt::format("there are no tables after step {}", step));
  if (step != step_) {
    --step_;
    return roll_back();
  }
  return {};
}

Status TableSet::load(std::int64_t step, std::size_t table, Records what,
                      std::span<const std::byte> records) {
  if (step < 0 || step >= kMostStep) return refused(fmt::format("there is no step {}", step));
  if (table >= config_.tables.size()) return refused(fmt::format("there is no table {}", table));
  if (loading_ != step) {
    loading_ = step;
    step_ = -1;
    can_go_back_ = false;
    forget_order();
    TANDEM_TRY(make_tables());
    for (SparseTable& each : tables_)
      TANDEM_TRY(each.begin_step(step + 1, each.config().optimizer.lr));
  }
  const std::size_t bytes = tables_[table].record_bytes(what);
  for (std::size_t at = 0; at + bytes <= records.size(); at += bytes) {
    std::uint64_t key;
    std::memcpy(&key, records.data() + at, sizeof key);
    if (key >= config_.keys[table] || !config_.share.holds(key)) {
      return refused(fmt::format("key {} of table {}, which has {}, is not on this server", key,
                                 table, config_.keys[table]));
    }
  }
  Status inserted = tables_[table].insert(what, records);
  if (!inserted.ok() && inserted.error().code() == Code::kInvalidArgument)
    return refused(fmt::format("table {}: {}", table, inserted.error().message()));
  return inserted;
}

Status TableSet::begin(double lr) {
  forget_order();
  can_go_back_ = false;
  // First of all: one that still had the last step's mark would go back too far.
  for (SparseTable& table : tables_) table.mark();
  for (SparseTable& table : tables_) TANDEM_TRY(table.begin_step(step_ + 1, lr));
  return {};
}

Result<optim::Updated> TableSet::push(std::size_t table, std::span<const std::uint64_t> keys,
                                      std::span<const float> sums) try {
  auto pushed = tables_[table].push(keys, sums);
  if (!pushed.ok()) {
    // Sizes fit and every partial sum was finite, but the sum is not.
    if (pushed.error().code() == Code::kInvalidArgument) return optim::Updated::kNotFinite;
    return std::move(pushed).error();
  }
  return pushed->not_finite > 0 ? optim::Updated::kNotFinite : optim::Updated::kFinite;
} catch (const std::bad_alloc&) {
  return Error(Code::kOutOfSpace, "the memory for what a step changes is out");
}

Status TableSet::commit(double lr) {
  ++step_;
  can_go_back_ = true;
  for (SparseTable& table : tables_) {
    TANDEM_TRY(table.begin_step(step_ + 1, lr));
    if (const std::int64_t age = table.config().evict_after; age > 0)
      table.sweep(kLeastSweep + 2 * (table.rows() + table.candidates()) / age);
  }
  return {};
}

Status TableSet::roll_back() {
  forget_order();
  can_go_back_ = false;
  for (SparseTable& table : tables_) {
    if (table.can_take_back()) TANDEM_TRY(table.take_back());
  }
  return {};
}

// Never back: tasks of several steps are under way at a time.
Status TableSet::advance(std::int64_t step, double lr) {
  lr_ = lr;
  for (SparseTable& table : tables_) {
    const bool is_new = step > table.step();
    if (is_new) forget_order();  // What it names may be freed below.
    TANDEM_TRY(table.begin_step(std::max(step, table.step()), lr));
    if (const std::int64_t age = table.config().evict_after; is_new && age > 0)
      table.sweep(kLeastSweep + 2 * (table.rows() + table.candidates()) / age);
  }
  return {};
}

Result<optim::Updated> TableSet::arrive(
    std::int64_t steps_done, double lr,
    const std::function<Result<optim::Updated>(TableSet&)>& pushes) {
  forget_order();
  TANDEM_TRY(advance(steps_done + 1, lr));
  for (SparseTable& table : tables_) table.mark();
  auto updated = [&]() -> Result<optim::Updated> {
    try {
      return pushes(*this);
    } catch (const std::bad_alloc&) {
      return Error(Code::kOutOfSpace, "the memory for what a task changes is out");
    }
  }();
  if (!updated.ok()) TANDEM_TRY(roll_back());
  return updated;
}

Status TableSet::look(std::int64_t steps_done) {
  return advance(steps_done + 1, lr_);
}

Status TableSet::stand_after(std::int64_t step) {
  forget_order();
  step_ = step;
  return advance(step + 1, lr_);
}

std::string TableSet::checksum() const {
  Hasher hasher;
  for (const SparseTable& table : tables_) {
    for (const Records what : {Records::kRows, Records::kCandidates}) {
      const SparseTable::Digest digest = table.digest(what);
      hasher.add(std::as_bytes(std::span(&digest, 1)));
    }
  }
  return hasher.hex();
}

Result<TableSet::Fetched> TableSet::fetch(std::uint64_t table, std::uint64_t what,
                                          std::uint64_t from) {
  if (table >= tables_.size()) return refused(fmt::format("there is no table {}", table));
  if (what > static_cast<std::uint64_t>(Records::kCandidates))
    return refused(fmt::format("there are none of kind {}", what));
  const auto kind = static_cast<Records>(what);
  if (!ordered_ || ordered_->table != table || ordered_->what != kind)
    ordered_ = Ordered{table, kind, KeyOrder(tables_[table].keys(kind))};
  KeyOrder& keys = ordered_->keys;
  if (from > keys.size()) return refused(fmt::format("number {} of {}", from, keys.size()));
  Fetched fetched;
  fetched.all = keys.size();
  const std::size_t most =
      std::max<std::size_t>(1, kRecordBytes / tables_[table].record_bytes(kind));
  const auto some = keys.get(from, std::min<std::size_t>(most, keys.size() - from));
  tables_[table].append(kind, some, fetched.records);
  // Who asked for the last has all.
  if (from + some.size() == keys.size()) forget_order();
  return fetched;
}

}  // namespace tandem::ps
