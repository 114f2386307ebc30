#include "model/row_kernels.h"

#include "base/simd.h"

namespace tandem::model {

TANDEM_SIMD float dot(const float* a, const float* b, std::size_t count) {
  float sums[kSimdLanes] = {};
  std::size_t i = 0;
  for (; i + kSimdLanes <= count; i += kSimdLanes) {
    for (std::size_t k = 0; k < kSimdLanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (std::size_t k = 0; i < count; ++i, ++k) sums[k] += a[i] * b[i];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

TANDEM_SIMD void accumulate_scaled(float* into, const float* from, float factor,
                                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i] * factor;
}

}  // namespace tandem::model
