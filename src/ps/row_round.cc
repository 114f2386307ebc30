#include "ps/row_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ps/row_list.h"

namespace tandem::ps {
namespace {

Error refused(const std::string& what) {
  return Error(Code::kInvalidArgument, "refused rows: " + what);
}

}  // namespace

RowRound::RowRound(const Plan& plan, const Bucket& slice, const KeyShare& share)
    : update_(plan, slice, share),
      ranges_(update_.ranges()),
      partials_(collective::partials_of(plan.ends)),
      workers_(plan.workers()),
      pushes_(partials_.size() * ranges_.size()) {
  std::vector<std::size_t> sums(workers_.size());
  for (const collective::Partial& partial : partials_)
    ++sums[static_cast<std::size_t>(partial.worker)];
  for (const RowRange& range : ranges_) {
    // A list has no more rows than are held, or than fit into a worker's window.
    const std::size_t rows = range.share ? plan.tables[range.table].rows : range.last - range.first;
    most_rows_ = std::max(most_rows_, rows);
  }
  // One list for what a worker pulls, and one for each of its partial sums, of each table.
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].lists.resize((1 + sums[i]) * ranges_.size());
    workers_[i].pulled.resize(ranges_.size());
  }
}

Result<std::size_t> RowRound::range_of(const Header& header) const {
  const auto range = std::find_if(ranges_.begin(), ranges_.end(),
                                  [&](const RowRange& each) { return each.table == header.place; });
  if (range == ranges_.end())
    return refused(fmt::format("there is no table {} on this server", header.place));
  return static_cast<std::size_t>(range - ranges_.begin());
}

Result<RowList*> RowRound::list_of(std::uint64_t number, int worker) {
  std::vector<RowList>& lists = workers_[static_cast<std::size_t>(worker)].lists;
  if (number >= lists.size()) return refused(fmt::format("list {} of {}", number, lists.size()));
  return &lists[number];
}

Result<const RowList*> RowRound::rows_of(std::uint64_t number, std::size_t range, int worker) {
  TANDEM_ASSIGN(const RowList* const list, list_of(number, worker));
  const RowRange& held = ranges_[range];
  if (!list->empty() && (list->front() < held.first || list->back() >= held.last)) {
    return refused(fmt::format("list {} has rows {} to {}, where {} to {} of table {} are held",
                               number, list->front(), list->back(), held.first, held.last - 1,
                               held.table));
  }
  if (!held.share) return list;
  const auto other = std::find_if(list->begin(), list->end(),
                                  [&](std::uint32_t row) { return !held.share->holds(row); });
  if (other != list->end()) {
    return refused(fmt::format("row {} of table {} is on server {}", *other, held.table,
                               KeyShare::owner(*other, held.share->of)));
  }
  return list;
}

Status RowRound::check_list(const Header& header, const RowList& list) const {
  const bool in_use = std::any_of(pushes_.begin(), pushes_.end(),
                                  [&](const Push& push) { return push.rows == &list; });
  if (in_use) return refused(fmt::format("list {} is used in this step", header.slot));
  if (header.sequence != 0 && (header.sequence != list.size() || header.bytes == 0)) {
    return refused(
        fmt::format("a list that goes on behind row {} of {}", header.sequence, list.size()));
  }
  if (header.bytes > kMostRowBytes * (most_rows_ - header.sequence)) {
    return refused(fmt::format("a list of {} bytes behind {} rows, where {} are held", header.bytes,
                               header.sequence, most_rows_));
  }
  return {};
}

Result<RowRound::Push*> RowRound::push_of(const Header& header, int worker,
                                          std::int64_t steps_done) {
  TANDEM_ASSIGN(const std::size_t range, range_of(header));
  if (header.step != steps_done) {
    return refused(
        fmt::format("they are for step {}, and {} are done", header.step + 1, steps_done));
  }
  if (header.slot >= partials_.size() || partials_[header.slot].worker != worker)
    return refused(fmt::format("partial sum {} is not the worker's", header.slot));
  TANDEM_ASSIGN(const RowList* const list, rows_of(header.code, range, worker));
  Push& push = pushes_[header.slot * ranges_.size() + range];
  if (push.rows != nullptr && (push.rows != list || push.is_whole()))
    return refused(fmt::format("partial sum {} has another list, or all of it", header.slot));
  const std::size_t row_bytes = ranges_[range].width * sizeof(float);
  const std::size_t rows = header.bytes / row_bytes;
  if (header.bytes % row_bytes != 0 || header.sequence != push.came ||
      rows > list->size() - push.came || (rows == 0 && !list->empty())) {
    return refused(fmt::format("{} bytes from row {} on, where {} of {} rows of {} bytes came",
                               header.bytes, header.sequence, push.came, list->size(), row_bytes));
  }
  if (!std::isfinite(header.number) || header.number < 0 || (lr_ && *lr_ != header.number)) {
    return refused(fmt::format("learning rate {}{}", header.number,
                               lr_ ? fmt::format(" where others have {}", *lr_) : ""));
  }
  return &push;
}

Result<std::span<std::byte>> RowRound::place(const Header& header, int worker,
                                             std::int64_t steps_done) {
  if (header.kind == Kind::kRowList) {
    TANDEM_ASSIGN(const RowList* const list, list_of(header.slot, worker));
    TANDEM_TRY(check_list(header, *list));
    std::vector<std::byte>& coming = workers_[static_cast<std::size_t>(worker)].coming;
    coming.resize(header.bytes);
    return std::span(coming);
  }
  TANDEM_ASSIGN(Push* const push, push_of(header, worker, steps_done));
  TANDEM_ASSIGN(const std::size_t range, range_of(header));
  const std::size_t width = ranges_[range].width;
  // From now on nobody replaces the list.
  TANDEM_ASSIGN(push->rows, rows_of(header.code, range, worker));
  const std::size_t all = push->rows->size() * width;
  if (push->floats.size() < all) push->floats.resize(all);
  return std::as_writable_bytes(
      std::span(push->floats).subspan(push->came * width, header.bytes / sizeof(float)));
}

Status RowRound::take_list(const Header& header, int worker) {
  TANDEM_ASSIGN(RowList* const list, list_of(header.slot, worker));
  TANDEM_TRY(check_list(header, *list));
  if (header.sequence == 0) list->clear();
  if (header.bytes == 0) return {};
  return decode_rows(workers_[static_cast<std::size_t>(worker)].coming, most_rows_, *list);
}

Status RowRound::take_push(const Header& header, int worker, std::int64_t steps_done) {
  TANDEM_ASSIGN(Push* const push, push_of(header, worker, steps_done));
  TANDEM_ASSIGN(const std::size_t range, range_of(header));
  const std::size_t width = ranges_[range].width, count = header.bytes / sizeof(float);
  if (push->rows == nullptr) {  // It had no payload, and so no place.
    TANDEM_ASSIGN(push->rows, rows_of(header.code, range, worker));
  }
  const auto floats = std::span<const float>(push->floats).subspan(push->came * width, count);
  const auto bad =
      std::find_if(floats.begin(), floats.end(), [](float value) { return !std::isfinite(value); });
  if (bad != floats.end()) {
    const std::size_t index = push->came + static_cast<std::size_t>(bad - floats.begin()) / width;
    return refused(fmt::format("the gradient of row {} of table {} is {}", (*push->rows)[index],
                               ranges_[range].table, *bad));
  }
  lr_ = header.number;
  push->came += count / width;
  return {};
}

Result<RowRound::Pull> RowRound::take_pull(const Header& header, int worker,
                                           std::int64_t steps_done) {
  TANDEM_ASSIGN(const std::size_t range, range_of(header));
  if (header.step != steps_done) {
    return refused(
        fmt::format("those after step {} are wanted, and {} are done", header.step, steps_done));
  }
  TANDEM_ASSIGN(const RowList* const list, rows_of(header.slot, range, worker));
  auto pulled = workers_[static_cast<std::size_t>(worker)].pulled.begin() +
                static_cast<std::ptrdiff_t>(range);
  if (*pulled && !ranges_[range].share) return refused("they were pulled in this step");
  *pulled = true;
  return Pull{ranges_[range], *list};
}

bool RowRound::is_complete() const {
  return !is_empty() && !used_ && std::all_of(pushes_.begin(), pushes_.end(), [](const Push& push) {
    return push.is_whole();
  });
}

std::span<const RowGradients> RowRound::gradients(std::size_t range) {
  gradients_.clear();
  for (std::size_t i = 0; i < partials_.size(); ++i) {
    const Push& push = pushes_[i * ranges_.size() + range];
    gradients_.push_back({*push.rows, push.floats.data()});
  }
  return gradients_;
}

std::vector<RowRound::Gradient> RowRound::gradients_of(std::size_t partial) {
  std::vector<Gradient> all;
  for (std::size_t range = 0; range < ranges_.size(); ++range) {
    Push& push = pushes_[partial * ranges_.size() + range];
    const std::size_t floats = push.rows->size() * ranges_[range].width;
    all.push_back({ranges_[range], *push.rows, std::span(push.floats).first(floats)});
  }
  return all;
}

optim::Updated RowRound::apply(DenseSlice& slice, Into into) {
  for (std::size_t range = 0; range < ranges_.size(); ++range)
    update_.make_room(range, gradients(range));
  optim::Updated updated = optim::Updated::kFinite;
  for (std::size_t range = 0; range < ranges_.size(); ++range) {
    if (update_.apply(range, gradients(range), slice, into) == optim::Updated::kNotFinite)
      updated = optim::Updated::kNotFinite;
  }
  used_ = true;
  return updated;
}

Result<optim::Updated> RowRound::apply(TableSet& tables) {
  optim::Updated updated = optim::Updated::kFinite;
  for (std::size_t range = 0; range < ranges_.size(); ++range) {
    TANDEM_ASSIGN(const optim::Updated now, update_.apply(range, gradients(range), tables));
    if (now == optim::Updated::kNotFinite) updated = now;
  }
  used_ = true;
  return updated;
}

void RowRound::sum(std::span<float> sums) {
  for (std::size_t range = 0; range < ranges_.size(); ++range)
    update_.sum(range, gradients(range), sums);
  used_ = true;
}

optim::Updated RowRound::apply_sums(std::span<float> sums, DenseSlice& slice) {
  optim::Updated updated = optim::Updated::kFinite;
  for (std::size_t range = 0; range < ranges_.size(); ++range) {
    if (update_.apply_sums(range, sums, slice) == optim::Updated::kNotFinite)
      updated = optim::Updated::kNotFinite;
  }
  return updated;
}

void RowRound::next() {
  for (Push& push : pushes_) {
    push.rows = nullptr;
    push.came = 0;
  }
  for (Worker& worker : workers_) std::fill(worker.pulled.begin(), worker.pulled.end(), false);
  lr_.reset();
  used_ = false;
}

}  // namespace tandem::ps
