#include "ps/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::ps {

Round::Round(std::vector<Piece> pieces, std::vector<collective::Partial> partials)
    : pieces_(std::move(pieces)),
      partials_(std::move(partials)),
      came_(partials_.size()),
      sources_(pieces_.size() * partials_.size()) {}

Status Round::check(const Header& push, std::int64_t worker, std::int64_t steps_done) const {
  const auto wrong = [](const std::string& what) {
    return Error(Code::kInvalidArgument, "refused a push: " + what);
  };
  if (push.step != steps_done)
    return wrong(fmt::format("it is for step {}, and {} are done", push.step + 1, steps_done));
  if (push.slot >= partials_.size() || partials_[push.slot].worker != worker)
    return wrong(fmt::format("partial sum {} is not the worker's", push.slot));
  if (push.place >= pieces_.size() || push.place != came_[push.slot]) {
    return wrong(fmt::format("piece {} of partial sum {} where piece {} of {} is due", push.place,
                             push.slot, came_[push.slot], pieces_.size()));
  }
  const Piece& piece = pieces_[push.place];
  if (push.bytes != (piece.end - piece.begin) * sizeof(float)) {
    return wrong(fmt::format("piece {} has {} floats, and {} bytes came", push.place,
                             piece.end - piece.begin, push.bytes));
  }
  if (!std::isfinite(push.number) || push.number < 0 || (lr_ && *lr_ != push.number)) {
    return wrong(fmt::format("learning rate {}{}", push.number,
                             lr_ ? fmt::format(" where others have {}", *lr_) : ""));
  }
  return {};
}

void Round::add(const Header& push, const float* floats) {
  lr_ = push.number;
  sources_[push.place * partials_.size() + push.slot] = floats;
  ++came_[push.slot];
}

std::size_t Round::complete() const {
  return came_.empty() ? 0 : *std::min_element(came_.begin(), came_.end());
}

void Round::next() {
  std::fill(came_.begin(), came_.end(), 0);
  lr_.reset();
}

}  // namespace tandem::ps
