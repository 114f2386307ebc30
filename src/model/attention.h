// Causal multi-head attention on the rows of a joint query-key-value matrix, in place: heads are
// columns of it, so nothing is transposed or copied.
#pragma once

#include <cstdint>

namespace tandem::model {

struct AttentionShape {
  std::int64_t samples, places, heads, width;  // width: of all heads together.

  std::int64_t head_width() const { return width / heads; }
  // Floats of the probabilities that forward keeps for backward.
  std::int64_t probabilities() const { return samples * heads * places * places; }
};

// Floats that attention() and attention_backward() need to work in.
std::int64_t attention_scratch(const AttentionShape& shape);

// out [samples * places, width] from qkv [samples * places, 3 * width].
void attention(const AttentionShape& shape, const float* qkv, float* probabilities, float* out,
               float* scratch);

// qkv_gradient from out_gradient.
void attention_backward(const AttentionShape& shape, const float* qkv, const float* probabilities,
                        const float* out_gradient, float* qkv_gradient, float* scratch);

}  // namespace tandem::model
