// A ring of message headers in shared memory: one process writes, another reads. Before the reader
// sleeps it says so, and the writer then rings a bell by other means. What comes out is as little
// trusted as what comes from a socket.
//
// Each end belongs to one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ps/message.h"

namespace tandem::ps {

// As it lies in shared memory, zero at first.
struct RingMemory {
  static constexpr std::uint64_t kSlots = 512;

  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::array<HeaderBytes, kSlots> slots;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

class RingWriter {
 public:
  explicit RingWriter(RingMemory& memory) : memory_(&memory) {}

  // False when the ring is full.
  bool write(const Header& header);
  // Whether the reader must be woken for what was written; asked once after writing.
  bool must_wake() {
    return memory_->reader_sleeps.load() != 0 && memory_->reader_sleeps.exchange(0) != 0;
  }

 private:
  RingMemory* memory_;
  std::uint64_t written_ = 0;
};

class RingReader {
 public:
  explicit RingReader(RingMemory& memory) : memory_(&memory) {}

  bool is_empty() const { return memory_->written.load(std::memory_order_acquire) == read_; }
  // kCorrupt when what was written is no header. REQUIRES: not empty.
  Result<Header> read();
  // From now on the writer rings; false: there is something to read already.
  bool doze();
  void wake() { memory_->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingMemory* memory_;
  std::uint64_t read_ = 0;
};

}  // namespace tandem::ps
