#include "model/kernels.h"

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "base/simd.h"
#include "model/fused_kernel.h"
#include "model/instruction_set.h"

namespace tandem::model {
namespace {

TANDEM_SIMD void bias_relu_rows(float* y, const float* __restrict bias, std::int64_t rows,
                                std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = y + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float sum = row[c] + bias[c];
      row[c] = sum < 0 ? 0 : sum;
    }
  }
}

TANDEM_SIMD void bias_rows(float* y, const float* __restrict bias, std::int64_t rows,
                           std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = y + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) row[c] += bias[c];
  }
}

TANDEM_SIMD void mask_and_sum_rows(float* __restrict dy, const float* __restrict y,
                                   float* __restrict sum, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = dy + r * columns;
    const float* out = y + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float kept = out[c] > 0 ? row[c] : 0;
      row[c] = kept;
      sum[c] += kept;
    }
  }
}

TANDEM_SIMD void multiply_and_sum_rows(float* __restrict dy, const float* __restrict factors,
                                       float* __restrict sum, std::int64_t rows,
                                       std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = dy + r * columns;
    const float* by = factors + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float product = row[c] * by[c];
      row[c] = product;
      sum[c] += product;
    }
  }
}

TANDEM_SIMD void sum_rows(const float* __restrict dy, float* __restrict sum, std::int64_t rows,
                          std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = dy + r * columns;
    for (std::int64_t c = 0; c < columns; ++c) sum[c] += row[c];
  }
}

// The finaliser of MurmurHash3: every bit of the input reaches every bit of the output.
[[gnu::always_inline]] inline std::uint32_t scramble(std::uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85ebca6bU;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return h ^ (h >> 16);
}

TANDEM_SIMD void dropout_kernel(const float* x, float* y, std::size_t count,
                                std::uint32_t threshold, float factor, std::uint32_t key_low,
                                std::uint32_t key_high) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t h = scramble(scramble(static_cast<std::uint32_t>(i) + key_low) ^ key_high);
    y[i] = (h >> 8) >= threshold ? x[i] * factor : 0.0F;
  }
}

const FusedKernel& fused_kernel() {
  static const FusedKernel& found = []() -> const FusedKernel& {
    switch (instruction_set()) {
      case InstructionSet::kAvx512:
        return avx512::kFusedKernel;
      case InstructionSet::kAvx2:
        return avx2::kFusedKernel;
      case InstructionSet::kPlain:
        break;
    }
    return plain::kFusedKernel;
  }();
  return found;
}

}  // namespace

void add_bias(float* y, const float* bias, std::int64_t rows, std::int64_t columns,
              Activate activate) {
  if (bias == nullptr) {
    if (activate == Activate::kRelu) relu(y, y, static_cast<std::size_t>(rows * columns));
    return;
  }
  if (activate == Activate::kRelu) {
    bias_relu_rows(y, bias, rows, columns);
  } else {
    bias_rows(y, bias, rows, columns);
  }
}

void add_bias_backward(float* dy, const float* y, float* bias_gradient, std::int64_t rows,
                       std::int64_t columns, Activate activate) {
  if (bias_gradient == nullptr) {
    if (activate == Activate::kRelu)
      relu_backward(dy, y, dy, static_cast<std::size_t>(rows * columns));
    return;
  }
  std::memset(bias_gradient, 0, static_cast<std::size_t>(columns) * sizeof(float));
  if (activate == Activate::kRelu) {
    mask_and_sum_rows(dy, y, bias_gradient, rows, columns);
  } else {
    sum_rows(dy, bias_gradient, rows, columns);
  }
}

TANDEM_SIMD void relu(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

TANDEM_SIMD void relu_backward(const float* dy, const float* y, float* dx, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
}

TANDEM_SIMD void add_relu(const float* a, const float* b, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    y[i] = sum < 0 ? 0 : sum;
  }
}

TANDEM_SIMD void copy_with_bias(const float* __restrict x, const float* __restrict bias,
                                float* __restrict y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) y[r * columns + c] = x[r * columns + c] + bias[c];
  }
}

TANDEM_SIMD void accumulate(float* into, const float* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
}

void dropout(const float* x, float* y, std::size_t count, double rate, std::uint64_t key) {
  const auto threshold = static_cast<std::uint32_t>(rate * 0x1.0p24);
  dropout_kernel(x, y, count, threshold, static_cast<float>(1.0 / (1.0 - rate)),
                 static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

void layer_norm(const float* x, const float* weight, const float* bias, float* y, float* mean,
                float* inverse, std::int64_t rows, std::int64_t columns) {
  fused_kernel().layer_norm(x, weight, bias, y, mean, inverse, rows, columns);
}

void layer_norm_backward(const float* dy, const float* x, const float* weight, const float* mean,
                         const float* inverse, float* dx, float* weight_gradient,
                         float* bias_gradient, std::int64_t rows, std::int64_t columns,
                         Write write) {
  std::memset(weight_gradient, 0, static_cast<std::size_t>(columns) * sizeof(float));
  std::memset(bias_gradient, 0, static_cast<std::size_t>(columns) * sizeof(float));
  fused_kernel().layer_norm_backward(dy, x, weight, mean, inverse, dx, weight_gradient,
                                     bias_gradient, rows, columns, write);
}

float softmax_row(float* row, std::int64_t length, std::int64_t columns, float scale) {
  return fused_kernel().softmax_row(row, length, columns, scale);
}

void softmax_row_backward(const float* p, float* dp, std::int64_t length, std::int64_t columns,
                          float scale) {
  fused_kernel().softmax_row_backward(p, dp, length, columns, scale);
}

void gelu(const float* x, float* y, std::size_t count) {
  fused_kernel().gelu(x, y, count);
}

void gelu_backward(const float* dy, const float* x, float* dx, std::size_t count) {
  fused_kernel().gelu_backward(dy, x, dx, count);
}

void gelu_of_biased(float* x, const float* bias, float* y, std::int64_t rows,
                    std::int64_t columns) {
  fused_kernel().gelu_of_biased(x, bias, y, rows, columns);
}

void gelu_of_biased_backward(float* dy, const float* slope, float* bias_gradient, std::int64_t rows,
                             std::int64_t columns) {
  std::memset(bias_gradient, 0, static_cast<std::size_t>(columns) * sizeof(float));
  multiply_and_sum_rows(dy, slope, bias_gradient, rows, columns);
}

TANDEM_SIMD void embed(const std::int32_t* tokens, const float* table, const float* position,
                       float* y, std::int64_t count, std::int64_t places, std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float* entry = table + tokens[i] * width;
    float* out = y + i * width;
    if (position == nullptr) {
      for (std::int64_t c = 0; c < width; ++c) out[c] = entry[c];
    } else {
      const float* place = position + i % places * width;
      for (std::int64_t c = 0; c < width; ++c) out[c] = entry[c] + place[c];
    }
  }
}

}  // namespace tandem::model
