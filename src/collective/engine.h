// What moves bytes between the ranks of a group: shared memory, Gloo or MPI. A Group is built on
// it.
//
// An engine that has failed once stays failed: every later call returns the same error, because
// nobody knows what the others still have under way. Calls belong to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "collective/membership.h"
#include "collective/reduce.h"
#include "collective/reducer.h"

namespace tandem::collective {

struct Send {
  int to = 0;
  std::span<const std::byte> bytes;
};

struct Receive {
  int from = 0;
  std::span<std::byte> bytes;
};

// Payload that went to and came from other ranks.
struct Traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual std::string_view name() const = 0;  // "shm", "gloo", "mpi".
  virtual const Membership& membership() const = 0;
  virtual Traffic traffic() const = 0;

  // Sends and receives all of it; returns when every receive is complete and the memory of every
  // send may be used again. Between two ranks, what is sent first is received first, and each
  // receive has the size of its send. An empty span sends nothing. No rank sends to itself.
  //
  // kPeerLost when a member is gone, kTimeout when one is late; both name it.
  virtual Status exchange(std::span<const Send> sends, std::span<const Receive> receives,
                          Deadline deadline) = 0;

  // Zeroed memory for operands, 64-byte aligned, ours until the engine ends. Every rank calls this
  // in the same order with the same size. Shared memory is reduced in place; others take any.
  virtual Result<std::span<std::byte>> allocate(std::size_t bytes, Deadline deadline) = 0;

  // Reduces in place where the engine knows a better way than exchange(); nothing when it does not.
  virtual std::optional<Status> all_reduce(const Operand& operand, Op op, Order order,
                                           Deadline deadline) = 0;
  // For training steps. The engine must outlive it.
  virtual Result<std::unique_ptr<Reducer>> make_reducer(ReducePlan plan, Deadline deadline);
  // Member `culprit` was found to be gone (kPeerLost) or late (kTimeout) by other means, or is this
  // rank and leaves: engines that can tell the other ranks do, and are of no more use then.
  virtual void give_up(Code /*why*/, int /*culprit*/) {}
  // Whether its all_reduce() finds out by itself that ranks disagree about the call.
  virtual bool checks_calls() const { return false; }
};

}  // namespace tandem::collective
