// What one peer may have unanswered of what it sends: so many bytes, and no more. A server grants
// each worker a credit with its welcome; a push takes its cost from it until it is answered. The
// worker waits before it pushes more, and the server refuses who does not.
//
// Bookkeeping only, the same at both ends. Belongs to one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "ps/message.h"
#include "ps/pieces.h"

namespace tandem::ps {

// Of a message with such a payload, wherever that lies.
constexpr std::uint64_t cost_of(std::uint64_t payload_bytes) {
  return kHeaderBytes + payload_bytes;
}
// Of a piece that is pushed for each of so many partial sums.
inline std::uint64_t cost_of(const Piece& piece, std::size_t partials) {
  return partials * cost_of((piece.end - piece.begin) * sizeof(float));
}

class Credit {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  // None at all.
  Credit() = default;
  explicit Credit(std::uint64_t bytes) : bytes_(bytes) {}
  // What a step of these pieces takes; if that is more than `limit`, what one piece does, or the
  // limit.
  Credit(std::span<const Piece> pieces, std::size_t partials, std::uint64_t limit) {
    std::uint64_t most = 0;
    for (const Piece& piece : pieces) {
      most = std::max(most, cost_of(piece, partials));
      bytes_ += cost_of(piece, partials);
    }
    bytes_ = std::min(bytes_, std::max(most, limit));
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t unanswered() const { return unanswered_; }
  bool allows(std::uint64_t cost) const { return cost <= bytes_ - unanswered_; }
  // REQUIRES: allows(cost).
  void take(std::uint64_t cost) { unanswered_ += cost; }
  // It was answered. More than was taken is as much as was taken.
  void give_back(std::uint64_t cost) { unanswered_ -= std::min(unanswered_, cost); }

 private:
  std::uint64_t bytes_ = 0, unanswered_ = 0;
};

}  // namespace tandem::ps
