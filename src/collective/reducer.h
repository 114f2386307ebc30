// The sum of a training step: every worker has partial sums over lanes (collective/tree.h), and all
// get the sum over all lanes, added in the tree's order: the same bits however lanes are shared.
// The vector is cut into buckets that are summed as they become ready, while backward goes on.
//
// On error the step must be dropped, and the reducer with it. A group has one reducer at a time,
// which belongs to one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/membership.h"
#include "collective/tree.h"

namespace tandem::collective {

// Floats [begin, end) of the vector.
struct Bucket {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The same at every rank.
struct ReducePlan {
  std::int64_t lanes = 1;
  std::size_t floats = 0;
  std::vector<Bucket> buckets;  // In the order in which they become ready; they cover the vector.
  // The caller takes the sum by gather() and piece(), not by sum().
  bool in_pieces = false;
  // How long a rank may be waited for before sum() has said until when.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  LaneEnds ends = {};  // How the ranks share the lanes; empty: equally.
};

// Floats of a sum: arrays that are still to be added, element by element, as Order::kOrdered does
// (collective/reduce.h); or one, when they are added already. Of two, the second is another rank's.
struct Piece {
  static constexpr std::size_t kMostParts = 4;

  Piece(std::initializer_list<const float*> arrays, std::size_t count)
      : Piece(std::span(arrays.begin(), arrays.size()), 0, count) {}
  // Floats [begin, begin + count) of the arrays, which are kMostParts at most.
  Piece(std::span<const float* const> arrays, std::size_t begin, std::size_t count);

  std::span<const float* const> arrays() const { return {parts.data(), part_count}; }

  std::array<const float*, kMostParts> parts = {};
  std::size_t part_count = 0;
  std::size_t floats = 0;
};
// `to` has as many floats, or more.
void copy_sum(const Piece& piece, std::span<float> to);

// How `ranks` ranks share the plan's lanes.
LaneEnds ends_of(const ReducePlan& plan, int ranks);

class Reducer {
 public:
  virtual ~Reducer() = default;

  // How many partial sums this rank has, and the memory of each: for this rank to write from the
  // end of release() until ready(). For a plan in_pieces it may be another one in each step.
  virtual std::size_t partials() const = 0;
  virtual std::span<float> partial(std::size_t index) = 0;

  // The next `count` buckets of the step are complete in every partial of this rank. Sums what it
  // can without waiting.
  virtual Status ready(std::size_t count) = 0;

  // Waits until all buckets are summed. The result is valid, and ours to read, until ready() of the
  // next step. REQUIRES: every bucket is ready.
  virtual Result<std::span<const float>> sum(Deadline deadline) = 0;
  // For a plan in_pieces, in place of sum(): waits until all can be summed. Then piece() gives
  // floats of the sum from at.begin on, as many as it likes, but some, and not beyond at.end: where
  // they lie already, or added now, into `scratch`, so that who needs them once finds them in the
  // nearest cache. Best begun with float first(), so that ranks do not read the same memory at the
  // same time. taken() ends this.
  virtual Status gather(Deadline deadline);
  virtual std::size_t first() const { return 0; }
  virtual Piece piece(const Bucket& at, std::span<float> scratch);
  virtual void taken() {}

  // Waits until no other rank reads our partials any more.
  virtual Status release(Deadline deadline) = 0;
  // True: release() would not wait. False: it may.
  virtual bool is_released() const { return false; }

  // sum() and release().
  Result<std::span<const float>> finish(Deadline deadline);

 private:
  std::span<const float> gathered_;
};

// Of a process alone.
std::unique_ptr<Reducer> make_local_reducer(ReducePlan plan);

// The part of a bucket that a rank sums for all.
Bucket slice_of(const Bucket& bucket, int rank, int size);

// Whether adding the partials of a node, in lane order, as Order::kOrdered does is adding them in
// the lane tree's order.
bool is_plain(LaneRange node, std::span<const Partial> partials);

// Adds floats [at.begin, at.end) of the partials that make up a node of the tree, in its order,
// into `to`, which points at at.begin. The partials come in lane order.
void add_partials(LaneRange node, std::span<const Partial> partials,
                  std::span<const float* const> sources, const Bucket& at, float* to);

}  // namespace tandem::collective
