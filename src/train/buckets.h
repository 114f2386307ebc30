// How a step's vector is cut into the pieces that are summed together. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/reducer.h"

namespace tandem::train {

// Buckets of `bytes` over the gradients, which become ready from the last to the first, and one
// more for all that follows them. 0 bytes: the size that was measured to be best.
std::vector<collective::Bucket> make_buckets(std::size_t gradients, std::size_t floats,
                                             std::int64_t bytes);

}  // namespace tandem::train
