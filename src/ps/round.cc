#include "ps/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::ps {

Round::Round(std::vector<Piece> pieces, std::vector<collective::Partial> partials)
    : pieces_(std::move(pieces)),
      partials_(std::move(partials)),
      came_(pieces_.size() * partials_.size()),
      sources_(came_.size()),
      missing_(pieces_.size(), partials_.size()) {
  complete_.reserve(pieces_.size());
}

Status Round::check(const Header& push, std::int64_t worker, std::int64_t steps_done) const {
  const auto wrong = [](const std::string& what) {
    return Error(Code::kInvalidArgument, "refused a push: " + what);
  };
  if (push.step != steps_done)
    return wrong(fmt::format("it is for step {}, and {} are done", push.step + 1, steps_done));
  if (push.slot >= partials_.size() || partials_[push.slot].worker != worker)
    return wrong(fmt::format("partial sum {} is not the worker's", push.slot));
  if (push.place >= pieces_.size())
    return wrong(fmt::format("piece {}, and there are {}", push.place, pieces_.size()));
  if (came_[push.place * partials_.size() + push.slot])
    return wrong(fmt::format("piece {} of partial sum {} came twice", push.place, push.slot));
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
  const std::size_t at = push.place * partials_.size() + push.slot;
  came_[at] = true;
  sources_[at] = floats;
  if (--missing_[push.place] == 0) complete_.push_back(push.place);
}

void Round::next() {
  std::fill(came_.begin(), came_.end(), false);
  std::fill(missing_.begin(), missing_.end(), partials_.size());
  complete_.clear();
  lr_.reset();
}

}  // namespace tandem::ps
