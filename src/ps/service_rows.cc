// What a parameter server does with the rows of tables: see ps/row_round.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ps/service.h"

namespace tandem::ps {

Status Service::take_rows(PeerId peer, const Header& header) {
  const int worker = members_.at(peer).worker;
  const std::int64_t steps_done = holding_->slice->step();
  if (header.kind == Kind::kRowList) return rows_->take_list(header, worker);
  if (header.kind == Kind::kPullRows) {
    TANDEM_ASSIGN(const RowRound::Pull pull, rows_->take_pull(header, worker, steps_done));
    return send_rows(peer, header, pull);
  }
  if (const auto lr = round_->lr(); lr && *lr != header.number) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("refused rows: learning rate {} where pieces have {}", header.number, *lr));
  }
  TANDEM_TRY(rows_->take_push(header, worker, steps_done));
  advance();
  return {};
}

// The next step may change them before they are sent: copies.
Status Service::send_rows(PeerId peer, const Header& header, const RowRound::Pull& pull) {
  if (has_tables()) return send_rows_by_key(peer, header, pull);
  const DenseSlice& slice = *holding_->slice;
  const std::size_t width = pull.range.width;
  const std::size_t most = std::max<std::size_t>(1, kRowFloats / width);
  Header answer{
      .kind = Kind::kRows, .slot = header.slot, .step = header.step, .place = header.place};
  for (std::size_t first = 0; first < pull.rows.size(); first += most) {
    const auto rows = pull.rows.subspan(first, std::min(most, pull.rows.size() - first));
    std::string floats(rows.size() * width * sizeof(float), '\0');
    char* to = floats.data();
    for (const std::uint32_t row : rows) {
      const std::size_t at = pull.range.at(row) - config_.slice.begin;
      std::memcpy(to, slice.parameters_at({at, at + width}).data(), width * sizeof(float));
      to += width * sizeof(float);
    }
    answer.sequence = first;
    out_.send_text(peer, answer, std::move(floats));
  }
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
