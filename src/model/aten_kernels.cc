// The kernels for which ATen's vectorised transcendental functions serve. Tensors here are views of
// the caller's memory; nothing is copied.
#include <ATen/ATen.h>

#include "model/kernels.h"

namespace tandem::model {
namespace {

at::Tensor view(const float* data, std::size_t count) {
  // from_blob wants a mutable pointer; the callers below only read what they got as const.
  return at::from_blob(const_cast<float*>(data), {static_cast<std::int64_t>(count)}, at::kFloat);
}

}  // namespace

void hyperbolic_tangent(const float* x, float* y, std::size_t count) {
  at::Tensor out = view(y, count);
  at::tanh_out(out, view(x, count));
}

void hyperbolic_tangent_backward(const float* dy, const float* y, float* dx, std::size_t count) {
  at::Tensor out = view(dx, count);
  at::tanh_backward_out(out, view(dy, count), view(y, count));
}

}  // namespace tandem::model
