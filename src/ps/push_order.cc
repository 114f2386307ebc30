#include "ps/push_order.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::ps {

void PushOrder::begin() {
  ready_ = 0;
  waiting_.clear();
}

void PushOrder::skip() {
  ready_ = pieces_.size();
  waiting_.clear();
}

void PushOrder::set_ready(std::size_t buckets) {
  for (; ready_ < pieces_.size() && pieces_[ready_].bucket < buckets; ++ready_)
    waiting_.push_back(ready_);
}

std::optional<std::size_t> PushOrder::next(Overtaking overtaking) const {
  if (waiting_.empty()) return std::nullopt;
  if (overtaking == Overtaking::kNever) return waiting_.front();
  const std::size_t newest = pieces_[waiting_.back()].bucket;
  return *std::partition_point(waiting_.begin(), waiting_.end(),
                               [&](std::size_t piece) { return pieces_[piece].bucket < newest; });
}

void PushOrder::take(std::size_t piece) {
  const auto at = std::lower_bound(waiting_.begin(), waiting_.end(), piece);
  TANDEM_CHECK(at != waiting_.end() && *at == piece);
  waiting_.erase(at);
}

}  // namespace tandem::ps
