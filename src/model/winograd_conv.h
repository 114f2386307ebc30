// Convolution layers by Winograd's algorithm (model/winograd.h), where that is faster than oneDNN's
// direct kernels. Internal to src/model/.
#pragma once

#include "model/plan_context.h"
#include "model/winograd.h"

namespace tandem::model::winograd {

struct Convolution {
  Activation in, out;
  Image image, result;
  std::int64_t padding;
  std::int64_t weight, bias;  // Offsets into the flat vectors; bias < 0: none.
  Activate activate;
};

// Transforms the whole batch, then multiplies: for many channels. Neither bias nor activation.
LayerPtr make_whole(PlanContext& context, const Convolution& convolution);

// Whether the transformed weights of so few channels leave room for tiles in the second-level
// cache.
bool fits_blocks(std::int64_t inputs, std::int64_t outputs);
// Transforms and multiplies some tiles at a time, which stay in the cache.
LayerPtr make_blockwise(PlanContext& context, const Convolution& convolution);

}  // namespace tandem::model::winograd
