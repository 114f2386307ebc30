// The words in shared memory with which the ranks of a host wait for each other, and what they do
// with them. Everyone counts its own arrivals; who waits looks for a moment, gives its core away
// for a moment, then sleeps on the counter (futex). Sleepers
// wake often enough to see that a peer's process has ended.
//
// The first failure is written down for all: whoever comes later returns the same.
//
//   offset              size  what
//        0               256  Head
//      256         448 * n    Slot, one for each rank
//   a page's multiple           staging: for each rank two halves of kStagingBytes
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "collective/arena.h"
#include "collective/membership.h"

namespace tandem::collective {

inline constexpr std::size_t kStagingBytes = 128 * 1024;
inline constexpr int kMostRanksOfAHost = 256;

// A counter that only its owner changes and everybody waits for; on a cache line of its own.
struct alignas(64) Counter {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;
};

// The told ones were found by the culprit itself, elsewhere; it only passes them on.
enum class Fault : std::uint32_t {
  kNone,
  kBeingWritten,
  kLost,
  kLate,
  kMisuse,
  kToldLost,
  kToldLate
};

struct alignas(64) Head {
  std::atomic<std::uint32_t> fault;  // A Fault.
  std::uint32_t culprit;             // The rank that is to blame.
  std::array<char, 200> words;       // What happened, zero-terminated.
};
static_assert(sizeof(Head) == 256);

struct Slot {
  Counter arrivals;   // At rounds of the engine.
  Counter ready;      // Buckets that a reducer's rank has filled.
  Counter done;       // Buckets whose slice it has summed.
  Counter published;  // Steps whose sum over all hosts it has written.
  std::atomic<std::uint32_t> pid;
  std::atomic<std::uint32_t> core;  // On which it last began to wait.
  // What this rank publishes with an arrival: valid until its next but one.
  alignas(64) std::array<std::array<std::uint64_t, 8>, 2> notes;
};
static_assert(sizeof(Slot) == 448);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

class ShmControl {
 public:
  // Bytes that it takes at the arena's start.
  static std::size_t bytes_for(int ranks);
  static Result<ShmControl> open(const Arena& arena, Membership membership);

  const Membership& membership() const { return membership_; }
  // Late by choice: members' processes are known when they have arrived for the first time.
  void learn_pids();

  Slot& slot(int rank);
  std::byte* staging(int rank, std::uint32_t half);

  // Adds to one of our own counters and wakes those who wait for it.
  void advance(Counter& counter, std::uint32_t by = 1);

  // Returns when the counter, which belongs to `peer`, is at `target` or beyond. `doing` goes into
  // the error: "all-reduce of 4096 float32".
  Status await(int peer, const Counter& counter, std::uint32_t target, Deadline deadline,
               const std::string& doing);
  static bool reached(const Counter& counter, std::uint32_t target) {
    const std::uint32_t value = counter.value.load(std::memory_order_acquire);
    return static_cast<std::int32_t>(value - target) >= 0;
  }

  // Writes down a failure unless there is one, wakes everybody, and returns the one that counts.
  Error fail(Fault fault, int culprit, const std::string& words);
  // The failure that was written down, if any.
  Status status() const;
  // Who is to blame for it, if it is that a rank is lost or late.
  std::optional<int> culprit() const;

 private:
  ShmControl(Mapping memory, Membership membership);

  Head& head() const { return *reinterpret_cast<Head*>(memory_.data()); }
  pid_t pid_of(int rank) const;  // 0: not known yet.
  bool is_dead(int rank);
  // Moves to another core when this one has two ranks more.
  void spread(std::chrono::steady_clock::time_point now);
  bool open_pidfd(int rank);

  Mapping memory_;
  Membership membership_;
  std::vector<Descriptor> pidfds_;  // By rank.
  // Before sleeping.
  int spins_ = 0;
  std::chrono::microseconds giving_{0};
  std::chrono::steady_clock::time_point next_spread_{};
};

}  // namespace tandem::collective
