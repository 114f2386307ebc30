// Softmax, layer norm and the Gaussian error linear unit, once for each instruction set. The sets
// with fused multiply-adds give the same bits; which one a run uses is what its nodes agreed on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/kernels.h"

namespace tandem::model {

struct FusedKernel {
  // As kernels.h says of the functions of these names.
  float (*softmax_row)(float* row, std::int64_t length, std::int64_t columns, float scale);
  void (*softmax_row_backward)(const float* p, float* dp, std::int64_t length, std::int64_t columns,
                               float scale);
  void (*gelu)(const float* x, float* y, std::size_t count);
  void (*gelu_backward)(const float* dy, const float* x, float* dx, std::size_t count);
  void (*gelu_of_biased)(float* x, const float* bias, float* y, std::int64_t rows,
                         std::int64_t columns);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float* y, float* mean,
                     float* inverse, std::int64_t rows, std::int64_t columns);
  // Adds to the weight's and the bias's gradients.
  void (*layer_norm_backward)(const float* dy, const float* x, const float* weight,
                              const float* mean, const float* inverse, float* dx,
                              float* weight_gradient, float* bias_gradient, std::int64_t rows,
                              std::int64_t columns, Write how);
};

namespace plain {
extern const FusedKernel kFusedKernel;
}
namespace avx2 {
extern const FusedKernel kFusedKernel;
}
namespace avx512 {
extern const FusedKernel kFusedKernel;
}

}  // namespace tandem::model
