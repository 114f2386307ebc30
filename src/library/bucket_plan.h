// Where each tensor's numbers lie in the vector that is summed in a step, and where that vector is
// cut. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/reducer.h"

namespace tandem::library {

struct BucketSizes {
  std::size_t first_bytes = 0;
  std::size_t other_bytes = 0;
};

struct BucketPlan {
  std::vector<std::size_t> offsets;  // By tensor, in floats; each on a cache line of its own.
  std::vector<std::size_t> bucket;   // By tensor.
  collective::ReducePlan reduce;
};

// For tensors of so many floats, in the order in which they become ready; no tensor is cut, and a
// bucket is closed when it has its size. One lane for each rank.
BucketPlan plan_buckets(std::span<const std::size_t> floats, BucketSizes sizes, int ranks);

}  // namespace tandem::library
