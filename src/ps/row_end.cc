#include "ps/row_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "ps/row_list.h"
#include "ps/row_round.h"
#include "ps/scope.h"

namespace tandem::ps {
namespace {

// Numbers of a message that registers a list.
constexpr std::size_t kListRows = std::size_t{1} << 18;

}  // namespace

// Rows that are held by key lie in the window in the order of all that were pulled.
class RowEnd::Places {
 public:
  Places(const RowRange& range, const RowLists* all, std::size_t from = 0)
      : range_(range), next_(from) {
    if (range.share) all_ = (*all)[range.table];
  }

  // REQUIRES: they ascend, and are among those that were pulled.
  std::size_t at(std::uint32_t row) {
    if (!range_.share) return range_.at(row);
    next_ = static_cast<std::size_t>(
        std::lower_bound(all_.begin() + static_cast<std::ptrdiff_t>(next_), all_.end(), row) -
        all_.begin());
    TANDEM_CHECK(next_ < all_.size() && all_[next_] == row);
    return range_.begin + next_++ * range_.width;
  }
  std::size_t next() const { return next_; }

 private:
  const RowRange& range_;
  std::span<const std::uint32_t> all_;
  std::size_t next_;
};

RowEnd::RowEnd(const Plan& plan, const Bucket& slice, const KeyShare& share, Gives gives,
               Connection& connection)
    : connection_(connection), gives_(gives) {
  for (const RowRange& range : rows_of(plan, slice, share)) {
    Held held;
    held.range = range;
    const std::size_t end = range.share ? plan.tables[range.table].end() : range.at(range.last);
    for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
      if (plan.buckets[i].begin < end && range.begin < plan.buckets[i].end) held.bucket = i;
    }
    ranges_.push_back(std::move(held));
  }
}

void RowEnd::register_list(std::size_t range, std::size_t which,
                           std::span<const std::uint32_t> rows) {
  std::size_t& name = ranges_[range].names[which];
  // Those of tables before this one stay as they are in this step.
  for (std::size_t i = 0; i <= range; ++i) {
    name = which * ranges_.size() + i;
    if (std::ranges::equal(ranges_[i].lists[which], rows)) return;
  }
  RowList& own = ranges_[range].lists[which];
  own.assign(rows.begin(), rows.end());
  std::size_t at = 0;
  do {
    const std::size_t end = std::min(own.size(), at + kListRows);
    connection_.send_text(
        {.kind = Kind::kRowList, .slot = static_cast<std::uint32_t>(name), .sequence = at},
        encode_rows(own, at, end));
    at = end;
  } while (at < own.size());
}

const RowList& RowEnd::list(const Held& held, std::size_t which) const {
  return ranges_[held.names[which] % ranges_.size()].lists[which];
}

void RowEnd::pull(std::int64_t step, const RowLists& all, std::span<const RowLists> sums,
                  std::span<float> parameters) {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    Held& held = ranges_[i];
    held.lists.resize(sums.size() == 1 ? 1 : 1 + sums.size());
    held.names.resize(held.lists.size());
    register_list(i, 0, part_of(all[held.range.table], held.range, scratch_));
    for (std::size_t sum = 0; sum + 1 < held.lists.size(); ++sum)
      register_list(i, 1 + sum, part_of(sums[sum][held.range.table], held.range, scratch_));
  }
  ask(step, all, parameters);
}

void RowEnd::read(std::int64_t step, const RowLists& all, std::span<float> parameters) {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    Held& held = ranges_[i];
    if (held.lists.empty()) held.lists.resize(1);
    held.names.resize(held.lists.size());
    register_list(i, 0, part_of(all[held.range.table], held.range, scratch_));
  }
  ask(step, all, parameters);
}

void RowEnd::ask(std::int64_t step, const RowLists& all, std::span<float> parameters) {
  step_ = step;
  parameters_ = parameters;
  all_ = &all;
  for (Held& held : ranges_) {
    held.came = held.placed = 0;
    if (gives_ == Gives::kNothing || list(held, 0).empty()) continue;
    connection_.send({.kind = Kind::kPullRows,
                      .slot = static_cast<std::uint32_t>(held.names[0]),
                      .step = step,
                      .place = held.range.table});
  }
}

bool RowEnd::has_pulled() const {
  return gives_ == Gives::kNothing ||
         std::all_of(ranges_.begin(), ranges_.end(), [&](const Held& held) {
           return held.names.empty() || held.came == list(held, 0).size();
         });
}

void RowEnd::begin_step() {
  stepped_ = false;
  for (Held& held : ranges_) held.is_pushed = false;
}

Status RowEnd::push(std::span<const RowSource> sources, std::size_t buckets_ready,
                    std::int64_t step, double lr) {
  lr_ = lr;
  step_ = step;
  for (Held& held : ranges_) {
    if (held.is_pushed || held.bucket >= buckets_ready) continue;
    held.is_pushed = true;
    held.gathered.resize(sources.size());
    for (std::size_t i = 0; i < sources.size(); ++i)
      TANDEM_TRY(push_one(held, i, sources[i], sources.size() == 1 ? 0 : 1 + i));
  }
  return {};
}

bool RowEnd::has_pushed() const {
  return std::all_of(ranges_.begin(), ranges_.end(),
                     [](const Held& held) { return held.is_pushed; });
}

Status RowEnd::push_one(Held& held, std::size_t index, const RowSource& source, std::size_t which) {
  const RowRange& range = held.range;
  const RowList& rows = list(held, which);
  std::vector<float>& floats = held.gathered[index];
  floats.resize(rows.size() * range.width);
  auto to = floats.begin();
  Places places(range, all_);
  for (const std::uint32_t row : rows) {
    const auto gradient = source.vector.subspan(places.at(row), range.width);
    for (const float value : gradient) {
      if (!std::isfinite(value)) {
        return Error(Code::kDiverged, fmt::format("the gradient of row {} of table {} is {}", row,
                                                  range.table, value));
      }
    }
    to = std::copy(gradient.begin(), gradient.end(), to);
  }
  const std::size_t most = std::max<std::size_t>(1, kRowFloats / range.width) * range.width;
  std::size_t at = 0;
  do {
    const auto some =
        std::span<const float>(floats).subspan(at, std::min(most, floats.size() - at));
    connection_.send({.kind = Kind::kPushRows,
                      .code = static_cast<std::uint16_t>(held.names[which]),
                      .slot = source.partial,
                      .step = step_,
                      .place = range.table,
                      .number = lr_,
                      .sequence = at / range.width},
                     bytes_of(some));
    at += some.size();
  } while (at < floats.size());
  return {};
}

RowEnd::Held* RowEnd::wanted(const Header& rows) {
  const auto held = std::find_if(ranges_.begin(), ranges_.end(),
                                 [&](const Held& each) { return each.range.table == rows.place; });
  if (gives_ == Gives::kNothing || held == ranges_.end() || held->names.empty() ||
      rows.slot != held->names[0] || rows.step != step_ || rows.bytes == 0 ||
      rows.bytes % (held->range.width * sizeof(float)) != 0 || rows.sequence != held->came)
    return nullptr;
  const std::size_t count = rows.bytes / (held->range.width * sizeof(float));
  return count <= list(*held, 0).size() - held->came ? &*held : nullptr;
}

Result<std::span<std::byte>> RowEnd::place(const Header& header) {
  if (header.kind != Kind::kRows || wanted(header) == nullptr) return unexpected();
  received_.resize(header.bytes / sizeof(float));
  return std::as_writable_bytes(std::span(received_));
}

Status RowEnd::message(const Header& header) {
  if (header.kind == Kind::kStepped) {
    if (is_empty() || !has_pushed() || stepped_ || header.step != step_ + 1) return unexpected();
    stepped_ = true;
    finite_ = header.code == 0;
    return {};
  }
  Held* const held = wanted(header);
  if (held == nullptr) return unexpected();
  const std::size_t width = held->range.width;
  Places places(held->range, all_, held->placed);
  for (auto from = received_.begin(); from != received_.end();
       from += static_cast<std::ptrdiff_t>(width)) {
    const std::uint32_t row = list(*held, 0)[held->came++];
    std::copy_n(from, width, parameters_.begin() + static_cast<std::ptrdiff_t>(places.at(row)));
  }
  held->placed = places.next();
  return {};
}

Error RowEnd::unexpected() const {
  return Error(Code::kCorrupt, fmt::format("{} sent rows that were not due", connection_.peer()));
}

}  // namespace tandem::ps
