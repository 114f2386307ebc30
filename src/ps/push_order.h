// Which piece a worker pushes next to a server. In turn, as they become ready; or, where the way is
// slow, so that what became ready last overtakes what still waits: backward ends with the first
// layers, and the next forward begins with them.
//
// Bookkeeping only. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "ps/pieces.h"

namespace tandem::ps {

enum class Overtaking : std::uint8_t { kNever, kLastReadyFirst };

class PushOrder {
 public:
  // `pieces` must outlive it.
  explicit PushOrder(std::span<const Piece> pieces) : pieces_(pieces) {}

  // A step begins in which nothing is ready.
  void begin();
  // Nothing of the step is to be pushed.
  void skip();
  // So many buckets are ready by now. Those of a bucket stay in order.
  void set_ready(std::size_t buckets);
  // Of those that are ready and were not taken.
  std::optional<std::size_t> next(Overtaking overtaking) const;
  // REQUIRES: next() gave it.
  void take(std::size_t piece);
  // Whether none is left, ready or not.
  bool is_done() const { return ready_ == pieces_.size() && waiting_.empty(); }

 private:
  const std::span<const Piece> pieces_;
  std::size_t ready_ = 0;
  std::deque<std::size_t> waiting_;  // Ascending.
};

}  // namespace tandem::ps
