// Collective operations among the ranks of a group. Every rank makes the same calls in the same
// order; one that does not gets an error, and so do the others. Each call returns when this rank
// may use its result, or fails with kPeerLost, kTimeout or kInvalidArgument naming who is to blame;
// after that the group is of no more use.
//
// A group belongs to one thread at a time. A group of one does nothing, quickly.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collective/engine.h"
#include "collective/reduce.h"

namespace tandem::collective {

class Group {
 public:
  // Of this process alone.
  Group();
  // `keep` lives as long as the group: what the engine was made with.
  explicit Group(std::unique_ptr<Engine> engine, std::shared_ptr<void> keep = nullptr);

  int rank() const { return membership().rank; }
  int size() const { return membership().size(); }
  std::uint64_t generation() const { return membership().generation; }
  const Membership& membership() const;
  std::string_view engine() const;  // "none", "shm", "gloo", "mpi".
  Traffic traffic() const;

  // This rank leaves because of something outside the group: ranks that wait for it, or will,
  // fail at once with kPeerLost, or kTimeout where that was the reason.
  void give_up(Code why);

  // Zeroed memory for operands; the fastest there is. Every rank asks for the same.
  Result<std::span<std::byte>> allocate(std::size_t bytes, Deadline deadline);

  // For training steps; the group must outlive it. Every rank passes the same plan.
  Result<std::unique_ptr<Reducer>> make_reducer(ReducePlan plan, Deadline deadline);

  // In place: afterwards every rank has the combination of all.
  Status all_reduce(const Operand& operand, Op op, Order order, Deadline deadline);
  Status all_reduce(std::span<float> sum, Deadline deadline) {
    return all_reduce({sum.data(), sum.size(), Type::kFloat32}, Op::kSum, Order::kOrdered,
                      deadline);
  }
  // `operand` has size() equal blocks, of which `mine` gets the combination of block rank().
  // REQUIRES: mine.size() * size() == operand.bytes().
  Status reduce_scatter(const Operand& operand, std::span<std::byte> mine, Op op, Order order,
                        Deadline deadline);
  // `all` gets everybody's bytes by rank. REQUIRES: all.size() == mine.size() * size().
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline);
  // Block i of `from` goes to rank i, block i of `to` comes from it. REQUIRES: equal sizes,
  // multiples of size().
  Status all_to_all(std::span<const std::byte> from, std::span<std::byte> to, Deadline deadline);
  // Everyone gets the bytes of `root`.
  Status broadcast(std::span<std::byte> bytes, int root, Deadline deadline);
  // `all`, at `root` only, gets everybody's bytes by rank.
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, int root,
                Deadline deadline);
  Status barrier(Deadline deadline);

 private:
  enum class Kind : std::uint64_t;
  struct Call;

  Status agree(const Call& call, Deadline deadline);
  Status reduce_by_slices(const Operand& operand, Op op, Order order, Deadline deadline);
  Status reduce_by_all(const Operand& operand, Op op, Order order, Deadline deadline);
  std::byte* scratch(std::size_t bytes);

  std::shared_ptr<void> keep_;
  std::unique_ptr<Engine> engine_;  // Null in a group of one.
  std::uint64_t calls_ = 0;
  Status broken_;                   // The disagreement that ended it.
  std::vector<std::byte> scratch_;  // Kept, so that nothing is allocated per call.
};

}  // namespace tandem::collective
