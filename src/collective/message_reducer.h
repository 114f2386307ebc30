// Sums a training step by messages: a thread of its own sends each rank its slice of a bucket, adds
// the slices that it receives, and sends the sum to all, while the caller goes on with backward.
#pragma once

#include <memory>
#include <vector>

#include "collective/engine.h"
#include "collective/reducer.h"

namespace tandem::collective {

// Who has which partial, and memory for ours and for the sum.
struct MessageReducerMemory {
  std::vector<Partial> partials;  // Of all ranks, in lane order.
  std::vector<float*> own;        // Of our partials.
  float* sum = nullptr;
};

// Between the first ready() of a step and the end of sum() the engine belongs to the reducer.
std::unique_ptr<Reducer> make_message_reducer(Engine& engine, ReducePlan plan,
                                              MessageReducerMemory memory);
// With memory of its own, and lanes shared equally.
std::unique_ptr<Reducer> make_message_reducer(Engine& engine, ReducePlan plan);

}  // namespace tandem::collective
