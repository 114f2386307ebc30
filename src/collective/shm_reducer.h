// Sums a training step in shared memory: partials and result lie there, each rank adds its slice of
// a bucket as soon as all have filled it, and everyone reads the result where it lies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/reducer.h"
#include "collective/shm_control.h"

namespace tandem::collective {

struct ShmReducerMemory {
  std::vector<float*> partials;  // Of all ranks, in lane order.
  float* result = nullptr;       // Shared by all.
};

// `control` must outlive it.
std::unique_ptr<Reducer> make_shm_reducer(ShmControl& control, ReducePlan plan,
                                          std::vector<Partial> partials, ShmReducerMemory memory);

}  // namespace tandem::collective
