// The signals with which a user ends or suspends a run (SIGINT, SIGTERM, SIGHUP, SIGTSTP), as
// something to poll instead of handlers. While a SignalQueue lives they are blocked and wait in it.
// Make it before any thread starts, so that threads inherit the mask; one per process at a time.
#pragma once

#include <csignal>
#include <optional>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::cluster {

class SignalQueue {
 public:
  static Result<SignalQueue> create();
  SignalQueue(SignalQueue&& other) noexcept;
  SignalQueue& operator=(SignalQueue&&) = delete;
  // The mask is as it was before; signals that still wait are delivered as usual.
  ~SignalQueue();

  // Readable when a signal waits.
  int fd() const { return fd_.get(); }
  // The number of the next signal that waits, if any.
  std::optional<int> take();

 private:
  SignalQueue() = default;

  Descriptor fd_;
  sigset_t before_{};
};

}  // namespace tandem::cluster
