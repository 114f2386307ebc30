// Element-wise and row-wise kernels that the libraries do not have fused, vectorised (base/simd.h).
// Pure functions of their arguments; the same bits on every instruction set, but for softmax,
// layer norm and gelu, which have other bits where there is no fused multiply-add
// (model/fused_kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::model {

// ReLU keeps NaN, so that a loss shows it.
enum class Activate : std::uint8_t { kNone, kRelu };

// y[r][c] = activate(y[r][c] + bias[c]). bias may be null.
void add_bias(float* y, const float* bias, std::int64_t rows, std::int64_t columns,
              Activate activate);

// Undoes add_bias in place: with kRelu dy is zeroed where y is not positive; bias_gradient[c] = sum
// over rows of dy (not computed when null).
void add_bias_backward(float* dy, const float* y, float* bias_gradient, std::int64_t rows,
                       std::int64_t columns, Activate activate);

void relu(const float* x, float* y, std::size_t count);
// dx = dy where y > 0, else 0. dx may be dy.
void relu_backward(const float* dy, const float* y, float* dx, std::size_t count);
// y = max(a + b, 0).
void add_relu(const float* a, const float* b, float* y, std::size_t count);
// y[r][c] = x[r][c] + bias[c].
void copy_with_bias(const float* x, const float* bias, float* y, std::int64_t rows,
                    std::int64_t columns);
// into += from.
void accumulate(float* into, const float* from, std::size_t count);

// y = x * keep / (1 - rate), keep decided by hashing (key, index). The same call on a gradient is
// its backward.
void dropout(const float* x, float* y, std::size_t count, double rate, std::uint64_t key);

// Layer-norm of rows; mean and inverse deviation are kept for backward.
void layer_norm(const float* x, const float* weight, const float* bias, float* y, float* mean,
                float* inverse, std::int64_t rows, std::int64_t columns);
enum class Write : std::uint8_t { kReplace, kAdd };
// dx is replaced or added to; weight and bias gradients are replaced.
void layer_norm_backward(const float* dy, const float* x, const float* weight, const float* mean,
                         const float* inverse, float* dx, float* weight_gradient,
                         float* bias_gradient, std::int64_t rows, std::int64_t columns,
                         Write write);

// y = x Phi(x), with an error below 2e-7 of the larger of 1 and |x|. dx may be dy.
void gelu(const float* x, float* y, std::size_t count);
void gelu_backward(const float* dy, const float* x, float* dx, std::size_t count);
// The same of x + bias, which becomes its slope, so that backward need not find it again.
void gelu_of_biased(float* x, const float* bias, float* y, std::int64_t rows, std::int64_t columns);
// dy becomes dx = dy * slope; bias_gradient the sum of its rows.
void gelu_of_biased_backward(float* dy, const float* slope, float* bias_gradient, std::int64_t rows,
                             std::int64_t columns);
void hyperbolic_tangent(const float* x, float* y, std::size_t count);
// From the output: dx = dy (1 - y^2).
void hyperbolic_tangent_backward(const float* dy, const float* y, float* dx, std::size_t count);

// Softmax of the first `length` of a row's numbers, each multiplied by `scale` (which is positive),
// in place; the rest of the row becomes 0. Returns the sum of exp(number - largest) that it divided
// by.
float softmax_row(float* row, std::int64_t length, std::int64_t columns, float scale = 1);
// ds = p * (dp - sum(dp * p)) * scale over the same, in place of dp; the rest becomes 0.
void softmax_row_backward(const float* p, float* dp, std::int64_t length, std::int64_t columns,
                          float scale);

// y[i] = table[tokens[i]] + position[i % places] (position may be null).
void embed(const std::int32_t* tokens, const float* table, const float* position, float* y,
           std::int64_t count, std::int64_t places, std::int64_t width);

}  // namespace tandem::model
