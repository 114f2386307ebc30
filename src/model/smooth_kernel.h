// Softmax and the Gaussian error linear unit, once for each instruction set. The sets with fused
// multiply-adds give the same bits; which one a run uses is what its nodes agreed on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::model {

struct SmoothKernel {
  // As kernels.h says of the functions of these names.
  float (*softmax_row)(float* row, std::int64_t length, std::int64_t columns, float scale);
  void (*softmax_row_backward)(const float* p, float* dp, std::int64_t length, std::int64_t columns,
                               float scale);
  void (*gelu)(const float* x, float* y, std::size_t count);
  void (*gelu_backward)(const float* dy, const float* x, float* dx, std::size_t count);
  void (*gelu_of_biased)(float* x, const float* bias, float* y, std::int64_t rows,
                         std::int64_t columns);
};

namespace plain {
extern const SmoothKernel kSmoothKernel;
}
namespace avx2 {
extern const SmoothKernel kSmoothKernel;
}
namespace avx512 {
extern const SmoothKernel kSmoothKernel;
}

}  // namespace tandem::model
