// How copies of a slice do the same as its first holder, where pushes are applied as they arrive:
// the order in which they are applied matters, and so does when a worker was answered
// (ps/arrivals.h). The first holder numbers what it does, each push and each pull, and says the
// number with the answer; the worker passes both on to the copies, which do it in the order of the
// numbers. So a copy has, at every moment, a state that the first holder had.
//
// Bookkeeping only; belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/result.h"
#include "ps/message.h"

namespace tandem::ps {

class EventOrder {
 public:
  struct Event {
    std::uint64_t peer = 0;
    Header header;                       // `sequence` is its number.
    std::span<const std::byte> payload;  // Stays as it is until the event was done.
  };

  // The number of what is done next.
  std::uint64_t next() const { return next_; }
  // It was.
  void done() { ++next_; }

  // Whether the peer's push of this piece waits, and its payload with it.
  bool has_push(std::uint64_t peer, std::uint64_t piece) const {
    return pushes_.contains({peer, piece});
  }
  // It came too early, and waits. kInvalidArgument when it is no later event, or `most` wait
  // already, which workers that wait for their answers cannot bring about.
  Status keep(const Event& event, std::size_t most);
  // The one that is next, if it waits no longer.
  std::optional<Event> take();

 private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Event> early_;                      // By number.
  std::set<std::pair<std::uint64_t, std::uint64_t>> pushes_;  // Of these: by peer and piece.
};

}  // namespace tandem::ps
