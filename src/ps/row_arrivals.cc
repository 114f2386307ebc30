#include "ps/row_arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::ps {
namespace {

Error refused(const std::string& what) {
  return Error(Code::kInvalidArgument, "refused rows: " + what);
}

// As if there were no others.
Plan alone(Plan plan) {
  plan.lanes = 1;
  plan.ends = {1};
  return plan;
}

}  // namespace

RowArrivals::RowArrivals(const Plan& plan, const Bucket& slice, const KeyShare& share)
    : lanes_(plan.lanes),
      rule_(*plan.async),
      slice_begin_(slice.begin),
      tables_(plan.tables.size()) {
  const Plan own = alone(plan);
  for (std::size_t i = 0; i < plan.workers(); ++i) workers_.emplace_back(own, slice, share);
}

Status RowArrivals::check_task(const Header& header, int worker,
                               const TaskProgress& progress) const {
  const Worker& from = workers_[static_cast<std::size_t>(worker)];
  if (!progress.has(header.step)) {
    return refused(fmt::format("task {} does not belong to the stretch after step {}", header.step,
                               progress.from()));
  }
  if (from.task >= 0 && header.step != from.task)
    return refused(fmt::format("task {} while rows of task {} come", header.step, from.task));
  return {};
}

Result<std::span<std::byte>> RowArrivals::place(const Header& header, int worker,
                                                const TaskProgress& progress) {
  if (header.kind != Kind::kRowList) TANDEM_TRY(check_task(header, worker, progress));
  return of(worker).round.place(header, 0, header.step);
}

Status RowArrivals::take_list(const Header& header, int worker) {
  return of(worker).round.take_list(header, 0);
}

Status RowArrivals::take_push(const Header& header, int worker, const TaskProgress& progress) {
  TANDEM_TRY(check_task(header, worker, progress));
  // Each is answered: who does not read would fill the server's memory with answers.
  if (header.step == of(worker).ended)
    return refused(fmt::format("task {}, all of which have come", header.step));
  TANDEM_TRY(of(worker).round.take_push(header, 0, header.step));
  of(worker).task = header.step;
  return {};
}

Result<RowRound::Pull> RowArrivals::take_pull(const Header& header, int worker,
                                              const TaskProgress& progress) {
  TANDEM_TRY(check_task(header, worker, progress));
  Worker& from = of(worker);
  TANDEM_ASSIGN(const RowRound::Pull pull, from.round.take_pull(header, 0, header.step));
  // Tables are pulled one after another: what was missed counts from the first. Who has pulled this
  // one before did it for an evaluation between stretches, which names the next task, too.
  if (from.pulled != header.step || pull.range.table <= from.table) from.seen = updates_;
  from.pulled = header.step;
  from.table = pull.range.table;
  return pull;
}

void RowArrivals::note_answer(int worker, const RowRound::Pull& pull,
                              std::span<const float> weights) {
  if (rule_.compensation <= 0) return;
  std::vector<std::vector<float>>& then = of(worker).then;
  then.resize(tables_);
  then[pull.range.table].assign(weights.begin(), weights.end());
}

std::optional<std::int64_t> RowArrivals::complete(int worker) const {
  const Worker& from = workers_[static_cast<std::size_t>(worker)];
  return from.round.is_complete() ? std::optional(from.task) : std::nullopt;
}

Result<optim::Updated> RowArrivals::apply(int worker, const RowPlace& to) {
  Worker& from = of(worker);
  TANDEM_CHECK(from.round.is_complete());
  // Who pulled nothing here has missed nothing.
  const std::uint64_t missed = from.pulled == from.task ? updates_ - from.seen : 0;
  double lr = *from.round.lr();
  if (rule_.stale_lr == StaleRate::kLowered)
    lr /= 1 + static_cast<double>(missed) / static_cast<double>(lanes_);
  if (missed > 0 && rule_.compensation > 0) compensate(from, to);
  ++updates_;
  if (to.tables != nullptr) {
    return to.tables->arrive(from.task / lanes_, lr,
                             [&](TableSet& tables) { return from.round.apply(tables); });
  }
  to.slice.begin_arrival(lr, from.task);
  return from.round.apply(to.slice, Into::kPlace);
}

// g + c g g (w - w_then), as pieces are.
void RowArrivals::compensate(Worker& from, const RowPlace& to) {
  const auto factor = static_cast<float>(rule_.compensation);
  for (const RowRound::Gradient& each : from.round.gradients_of(0)) {
    const std::size_t width = each.range.width;
    const std::vector<float>& then = from.then[each.range.table];
    // A worker may push other rows than it pulled; what these were is not known.
    if (then.size() != each.floats.size()) continue;
    now_.resize(each.floats.size());
    if (to.tables != nullptr) {
      keys_.assign(each.rows.begin(), each.rows.end());
      TANDEM_CHECK(to.tables->pull(each.range.table, keys_, now_).ok());
    } else {
      auto at = now_.begin();
      for (const std::uint32_t row : each.rows) {
        const std::size_t begin = each.range.at(row) - slice_begin_;
        at = std::ranges::copy(to.slice.now({begin, begin + width}), at).out;
      }
    }
    for (std::size_t i = 0; i < now_.size(); ++i) {
      float& slope = each.floats[i];
      slope += factor * slope * slope * (now_[i] - then[i]);
    }
  }
}

void RowArrivals::end(int worker) {
  of(worker).round.next();
  of(worker).ended = std::exchange(of(worker).task, -1);
}

}  // namespace tandem::ps
