#include "ps/sparse_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/rows.h"
#include "base/span_math.h"
#include "ps/candidates.h"

namespace tandem::ps {
namespace {

Error invalid(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

Status check_between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (least <= value && value <= most) return {};
  return invalid(
      fmt::format("the table's {} is {}, but must be between {} and {}", name, value, least, most));
}

Status check(const SparseTableConfig& config) {
  TANDEM_TRY(check_between("width", config.width, 1, kMostWidth));
  TANDEM_TRY(check_between("admit_after", config.admit_after, 0, kMostStep - 1));
  TANDEM_TRY(check_between("evict_after", config.evict_after, 0, kMostStep));
  if (!(config.init_scale >= 0 && config.init_scale <= std::numeric_limits<float>::max())) {
    return invalid(fmt::format("the table's init_scale is {}, but must be 0 or a positive float",
                               config.init_scale));
  }
  return {};
}

}  // namespace

Result<SparseTable> SparseTable::create(const SparseTableConfig& config) {
  TANDEM_TRY(check(config));
  TANDEM_ASSIGN(RowRule rule,
                RowRule::create(config.optimizer, static_cast<std::size_t>(config.width)));
  return SparseTable(config, std::move(rule));
}

Status SparseTable::begin_step(std::int64_t step, double lr) {
  TANDEM_TRY(check_between("step", step, step_, kMostStep));
  if (!(lr >= 0 && std::isfinite(lr))) {
    return invalid(
        fmt::format("the learning rate of step {} is {}, but must be 0 or more", step, lr));
  }
  step_ = step;
  rule_.begin_step(lr, step);
  return {};
}

Status SparseTable::check_sizes(std::size_t keys, std::size_t floats, const char* what) const {
  const auto width = static_cast<std::size_t>(config_.width);
  if (floats % width == 0 && floats / width == keys) return {};
  return invalid(fmt::format("{} keys came with {} {}, but rows have {} floats each", keys, floats,
                             what, width));
}

Result<Pushed> SparseTable::push(std::span<const std::uint64_t> keys,
                                 std::span<const float> gradients) {
  TANDEM_TRY(check_sizes(keys.size(), gradients.size(), "gradients"));
  const auto width = static_cast<std::size_t>(config_.width);
  if (const std::size_t wrong = first_not_finite(gradients); wrong != gradients.size()) {
    return invalid(fmt::format("the gradient of key {} is {} at place {}; nothing was applied",
                               keys[wrong / width], gradients[wrong], wrong % width));
  }
  if (marked_) {  // Before anything changes, for memory may be out.
    marked_->before.reserve(marked_->before.size() + keys.size());
    marked_->words.reserve(marked_->words.size() + keys.size() * rule_.words());
  }
  Pushed pushed;
  Status status;
  rows_.find_each(keys, [&](std::size_t i, std::uint64_t hash, Row row) {
    if (marked_) note(keys[i], hash, row);
    if (!row || is_old(row)) {
      status = renew(keys[i], hash, row, pushed);
      if (!row) return status.ok();
    }
    row.touched() = static_cast<std::uint32_t>(step_);
    pushed.not_finite += rule_.update(row.words(), gradients.data() + i * width) ? 1 : 0;
    ++pushed.applied;
    return true;
  });
  if (!status.ok()) {
    return std::move(status).error().within(
        fmt::format("after {} of {} keys of a push", pushed.applied + pushed.dropped, keys.size()));
  }
  return pushed;
}

Status SparseTable::renew(std::uint64_t key, std::uint64_t hash, Row& row, Pushed& pushed) {
  if (row) {
    rows_.erase(key, hash);
    ++evicted_;
    row = Row();
  }
  TANDEM_ASSIGN(const bool admitted, admit(key, hash));
  if (!admitted) {
    ++pushed.dropped;
    return {};
  }
  TANDEM_ASSIGN(row, create_row(key, hash));
  ++pushed.created;
  return {};
}

Result<bool> SparseTable::admit(std::uint64_t key, std::uint64_t hash) {
  if (config_.admit_after == 0) return true;
  Row candidate = candidates_.find(key, hash);
  if (candidate && !is_old(candidate) && touches_of(candidate) >= config_.admit_after) {
    candidates_.erase(key, hash);
    return true;
  }
  if (!candidate) {
    TANDEM_ASSIGN(candidate, candidates_.insert(key, hash));
    set_touches(candidate, 0);
  } else if (is_old(candidate)) {
    set_touches(candidate, 0);
    ++evicted_;
  }
  set_touches(candidate, touches_of(candidate) + 1);
  candidate.touched() = static_cast<std::uint32_t>(step_);
  return false;
}

Result<Row> SparseTable::create_row(std::uint64_t key, std::uint64_t hash) {
  TANDEM_ASSIGN(const Row row, rows_.insert(key, hash));
  const auto width = static_cast<std::size_t>(config_.width);
  initialise(key, {row.words(), width});
  std::fill(row.words() + width, row.words() + rule_.words(), 0.0F);
  return row;
}

void SparseTable::initialise(std::uint64_t key, std::span<float> weights) const {
  begin_row(config_.seed, key, static_cast<float>(config_.init_scale), weights);
}

Status SparseTable::pull(std::span<const std::uint64_t> keys, std::span<float> weights) const {
  TANDEM_TRY(check_sizes(keys.size(), weights.size(), "places for weights"));
  const auto width = static_cast<std::size_t>(config_.width);
  rows_.find_each(keys, [&](std::size_t i, std::uint64_t, Row row) {
    const std::span<float> to = weights.subspan(i * width, width);
    if (!row || is_old(row)) {
      initialise(keys[i], to);
    } else if (width == 1) {
      to[0] = *row.words();
    } else {
      std::memcpy(to.data(), row.words(), width * sizeof(float));
    }
    return true;
  });
  return {};
}

Swept SparseTable::sweep(std::int64_t most_slots) {
  TANDEM_CHECK(most_slots >= 0);
  if (config_.evict_after == 0) return {};
  // What can be taken back may need what has become too old since.
  const std::int64_t step = marked_ ? std::min(step_, marked_->step) : step_;
  const auto old = [this, step](const Row& row) { return is_old(row, step); };
  Swept swept;
  swept.rows = static_cast<std::int64_t>(rows_.sweep(static_cast<std::size_t>(most_slots), old));
  swept.candidates =
      static_cast<std::int64_t>(candidates_.sweep(static_cast<std::size_t>(most_slots), old));
  evicted_ += swept.rows + swept.candidates;
  return swept;
}

}  // namespace tandem::ps
