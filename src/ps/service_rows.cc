// What a parameter server does with the rows of tables: see ps/row_round.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ps/service.h"

namespace tandem::ps {

Status Service::check_rate(const Header& header, std::optional<double> known) {
  if (!known || *known == header.number) return {};
  return Error(Code::kInvalidArgument,
               fmt::format("refused a push: learning rate {} where the step's is {}", header.number,
                           *known));
}

Status Service::take_rows(PeerId peer, const Header& header) {
  const int worker = members_.at(peer).worker;
  const std::int64_t steps_done = holding_->slice->step();
  if (header.kind == Kind::kRowList) return rows_->take_list(header, worker);
  if (header.kind == Kind::kPullRows) {
    TANDEM_ASSIGN(const RowRound::Pull pull, rows_->take_pull(header, worker, steps_done));
    return send_rows(peer, header, pull);
  }
  TANDEM_TRY(check_rate(header, round_->lr()));
  TANDEM_TRY(rows_->take_push(header, worker, steps_done));
  advance();
  return {};
}

// The next step may change them before they are sent: copies.
Status Service::send_rows(PeerId peer, const Header& header, const RowRound::Pull& pull) {
  Member& member = members_.at(peer);
  Unsent& last = member.rows[pull.range.table];
  if (!last.expired()) return asked_too_soon(header);
  const std::size_t width = pull.range.width;
  const auto weights = std::make_shared<std::vector<float>>(pull.rows.size() * width);
  if (has_tables()) {
    const std::vector<std::uint64_t> keys(pull.rows.begin(), pull.rows.end());
    TANDEM_TRY(holding_->tables->pull(pull.range.table, keys, *weights));
  } else {
    float* to = weights->data();
    for (const std::uint32_t row : pull.rows) {
      const std::size_t at = pull.range.at(row) - config_.slice.begin;
      std::memcpy(to, holding_->slice->parameters_at({at, at + width}).data(),
                  width * sizeof(float));
      to += width;
    }
  }
  last = weights;
  if (is_async()) row_arrivals_->note_answer(member.worker, pull, *weights);
  const std::size_t most = std::max<std::size_t>(1, kRowFloats / width);
  Header answer{
      .kind = Kind::kRows, .slot = header.slot, .step = header.step, .place = header.place};
  for (std::size_t first = 0; first < pull.rows.size(); first += most) {
    const auto some = std::span<const float>(*weights).subspan(
        first * width, std::min(most, pull.rows.size() - first) * width);
    answer.sequence = first;
    out_.lend(peer, answer, bytes_of(some), weights);
  }
  return {};
}

Status Service::take_rows_async(PeerId peer, const Header& header) {
  const int worker = members_.at(peer).worker;
  const TaskProgress& progress = *holding_->progress;
  if (header.kind == Kind::kRowList) return row_arrivals_->take_list(header, worker);
  if (header.kind == Kind::kPullRows) {
    TANDEM_ASSIGN(const RowRound::Pull pull, row_arrivals_->take_pull(header, worker, progress));
    if (has_tables()) TANDEM_TRY(holding_->tables->look(header.step / plan_->lanes));
    return send_rows(peer, header, pull);
  }
  TANDEM_TRY(row_arrivals_->take_push(header, worker, progress));
  note_push();
  return apply_arrived_rows(peer);
}

// Pieces and rows come by different ways: whichever is last brings this about.
Status Service::apply_arrived_rows(PeerId peer) {
  const int worker = members_.at(peer).worker;
  const auto task = row_arrivals_->complete(worker);
  if (!task || !arrivals_->has_all(*task, worker)) return {};
  TaskProgress& progress = *holding_->progress;
  if (progress.applied(*task) < parts_of_task()) {
    progress.make_room(*task);
    auto updated = row_arrivals_->apply(worker, {*holding_->slice, holding_->tables.get()});
    if (!updated.ok()) {
      break_up(0, std::move(updated).error().within("this server's tables"));
      return {};
    }
    if (*updated == optim::Updated::kNotFinite) finite_ = false;
    progress.apply(*task);
  }
  row_arrivals_->end(worker);
  out_.send(peer,
            {.kind = Kind::kStepped,
             .code = static_cast<std::uint16_t>(finite_ ? 0 : 1),
             .step = *task + 1},
            {});
  return {};
}

void Service::take_complete_rows() {
  if (plan_->clip.norm > 0) {
    rows_->sum(sums_);
  } else {
    end_rows(rows_->apply(*holding_->slice));
  }
}

void Service::end_rows(optim::Updated updated) {
  if (updated == optim::Updated::kNotFinite) finite_ = false;
  const Header stepped{.kind = Kind::kStepped,
                       .code = static_cast<std::uint16_t>(finite_ ? 0 : 1),
                       .step = holding_->slice->step() + 1};
  for (const auto& [peer, member] : members_) out_.send(peer, stepped, {});
}

}  // namespace tandem::ps
