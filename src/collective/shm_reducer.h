// Sums a training step in shared memory: partials and sums lie there, each rank adds its slice of a
// bucket as soon as all have filled it, and everyone reads the sum where it lies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/reducer.h"
#include "collective/shm_control.h"

namespace tandem::collective {

// Nodes of the tree that the host's ranks sum together, and where each sum goes.
struct ShmTarget {
  LaneRange node;
  float* sum = nullptr;
};

// Who sums: each rank its slice of a bucket for all, or each rank everything for itself, which is
// quicker for what stays in the cache: nobody waits for the others' slices.
enum class Share : std::uint8_t { kSlices, kWhole };

struct ShmReducerMemory {
  std::vector<Partial> partials;  // Of the host's ranks, in lane order; `worker` is the rank here.
  // Of each partial; steps take the sets in turn. More than one is for a plan in_pieces of kWhole:
  // then nobody waits until the others have read the step before.
  std::vector<std::vector<float*>> sets;
  std::vector<ShmTarget> targets;
  // kWhole: then there is one target, and its sum is our own memory, or none for a plan in_pieces.
  Share share = Share::kSlices;
};

// sum() gives the first target's sum.
class ShmReducer : public Reducer {
 public:
  // Buckets of the step under way that every rank of the host has summed.
  virtual std::size_t complete() const = 0;
  // The targets, and where their sums lie.
  virtual std::size_t targets() const = 0;
  virtual float* target(std::size_t index) const = 0;
};

// `control` must outlive it.
std::unique_ptr<ShmReducer> make_shm_reducer(ShmControl& control, ReducePlan plan,
                                             ShmReducerMemory memory);

}  // namespace tandem::collective
