// The sum of a training step: every worker has partial sums over lanes (collective/tree.h), and all
// get the sum over all lanes, added in the tree's order: the same bits however lanes are shared.
// The vector is cut into buckets that are summed as they become ready, while backward goes on.
//
// On error the step must be dropped, and the reducer with it. A group has one reducer at a time,
// which belongs to one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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

// Floats of a sum: where they lie, and what is still to be added to them: as many, or none.
struct Piece {
  std::span<const float> values;
  std::span<const float> more = {};

  std::size_t size() const { return values.size(); }
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
  // they lie already, in two parts, or added now, into `scratch`, so that who needs them once finds
  // them in the nearest cache. taken() ends this.
  virtual Status gather(Deadline deadline);
  virtual Piece piece(const Bucket& at, std::span<float> scratch);
  virtual void taken() {}

  // Waits until no other rank reads our partials any more.
  virtual Status release(Deadline deadline) = 0;

  // sum() and release().
  Result<std::span<const float>> finish(Deadline deadline);

 private:
  std::span<const float> gathered_;
};

// Of a process alone.
std::unique_ptr<Reducer> make_local_reducer(ReducePlan plan);

// The part of a bucket that a rank sums for all.
Bucket slice_of(const Bucket& bucket, int rank, int size);

// Adds floats [at.begin, at.end) of the partials that make up a node of the tree, in its order,
// into `to`, which points at at.begin. The partials come in lane order.
void add_partials(LaneRange node, std::span<const Partial> partials,
                  std::span<const float* const> sources, const Bucket& at, float* to);

}  // namespace tandem::collective
