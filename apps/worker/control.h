// What a node tells its worker over the control socket: its places, and verdicts on what it asked.
// Belongs to one thread, which alone reads from the socket.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "base/result.h"
#include "wire/frame.h"

namespace tandem::worker {

class Control {
 public:
  explicit Control(int socket) : socket_(socket) {}

  // Takes what the node says, for at most so long. kCancelled when it is gone.
  Status listen(std::chrono::milliseconds at_most);

  // The last of each that was heard, once.
  bool has_place() const { return place_.has_value(); }
  std::optional<wire::Place> take_place() { return std::exchange(place_, std::nullopt); }
  std::optional<wire::Verdict> take_verdict() { return std::exchange(verdict_, std::nullopt); }

 private:
  const int socket_;
  wire::FrameReader frames_;
  std::optional<wire::Place> place_;
  std::optional<wire::Verdict> verdict_;
};

}  // namespace tandem::worker
