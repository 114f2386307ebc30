// Writes text to a descriptor for a thread that must never wait, however slow the reader is: a
// terminal stopped with Ctrl-S, a pager that nobody scrolls. A thread of its own does the writing,
// because a terminal can block even when poll() calls it ready, and O_NONBLOCK would be set for
// every other process that shares the terminal.
//
// write() and finish() belong to one thread. The constructor's thread must already block the
// signals that somebody waits for: the new thread inherits its mask.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>

namespace tandem::cli {

// How much a text matters when the reader is behind.
enum class Weight : std::uint8_t {
  kFrame,  // Stale at once: left out whenever something else is still waiting.
  kLine,   // Left out when kMostWaitingBytes are waiting.
  kLast,   // Never left out; for the few words at the end.
};

class BackgroundWriter {
 public:
  static constexpr std::size_t kMostWaitingBytes = std::size_t{64} << 10;

  // Writes to `fd`, which stays the caller's and must stay open as long as the process.
  explicit BackgroundWriter(int fd);
  // Does not wait either: what is not out yet may be lost. See finish().
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // Takes the text as a whole, or leaves it out as a whole and returns false. Never waits. Texts
  // for a descriptor that cannot be written any more are taken and forgotten.
  bool write(Weight weight, std::string_view text);

  // Waits until everything is out, for `patience` at most. False when something is not.
  bool finish(std::chrono::milliseconds patience);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared, int fd);

  // Shared with the thread, which may still be stuck in a write when this object is gone.
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace tandem::cli
