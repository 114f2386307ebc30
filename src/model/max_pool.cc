// Maxima of windows that do not overlap, in blocked layouts: several times faster than oneDNN's.
// Backward finds the places again by comparing, so nothing is kept.
#include <algorithm>
#include <cstring>

#include "base/simd.h"
#include "model/blocked_image.h"
#include "model/plan_context.h"

namespace tandem::model {
namespace {

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void load(const float* from, Vector<kBlock>& value) {
  std::memcpy(&value, from, sizeof value);
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void largest(const float* x, std::int64_t row, std::int64_t window,
                                           float* y) {
  Vector<kBlock> best, value;
  load<kBlock>(x, best);
  for (std::int64_t r = 0; r < window; ++r) {
    for (std::int64_t c = 0; c < window; ++c) {
      load<kBlock>(x + r * row + c * kBlock, value);
      // NaN wins, and stays.
      best = ((value > best) | (value != value)) ? value : best;
    }
  }
  std::memcpy(y, &best, sizeof best);
}

// The first of several equal ones gets the gradient.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline void give_to_largest(const float* x, const float* y, const float* dy,
                                                   std::int64_t row, std::int64_t window,
                                                   float* dx) {
  Vector<kBlock> best, left, value;
  const Vector<kBlock> nothing = {};
  load<kBlock>(y, best);
  load<kBlock>(dy, left);
  for (std::int64_t r = 0; r < window; ++r) {
    for (std::int64_t c = 0; c < window; ++c) {
      const std::int64_t at = r * row + c * kBlock;
      load<kBlock>(x + at, value);
      const Vector<kBlock> given = value == best ? left : nothing;
      left = value == best ? nothing : left;
      std::memcpy(dx + at, &given, sizeof given);
    }
  }
}

struct Pooling {
  std::int64_t planes;         // Samples times blocks.
  std::int64_t height, width;  // Of the results.
  std::int64_t window;
  std::int64_t row, plane;  // Floats of the input's.
};

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void pool(const Pooling& all, const float* x, float* y) {
  for (std::int64_t p = 0; p < all.planes; ++p) {
    for (std::int64_t r = 0; r < all.height; ++r) {
      const float* from = x + p * all.plane + r * all.window * all.row;
      for (std::int64_t c = 0; c < all.width; ++c, y += kBlock)
        largest<kBlock>(from + c * all.window * kBlock, all.row, all.window, y);
    }
  }
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void pool_backward(const Pooling& all, const float* x, const float* y,
                                                 const float* dy, float* dx) {
  for (std::int64_t p = 0; p < all.planes; ++p) {
    for (std::int64_t r = 0; r < all.height; ++r) {
      const std::int64_t from = p * all.plane + r * all.window * all.row;
      for (std::int64_t c = 0; c < all.width; ++c, y += kBlock, dy += kBlock) {
        const std::int64_t at = from + c * all.window * kBlock;
        give_to_largest<kBlock>(x + at, y, dy, all.row, all.window, dx + at);
      }
    }
  }
}

TANDEM_SIMD void pool_8(const Pooling& all, const float* x, float* y) {
  pool<8>(all, x, y);
}
TANDEM_SIMD void pool_16(const Pooling& all, const float* x, float* y) {
  pool<16>(all, x, y);
}
TANDEM_SIMD void pool_backward_8(const Pooling& all, const float* x, const float* y,
                                 const float* dy, float* dx) {
  pool_backward<8>(all, x, y, dy, dx);
}
TANDEM_SIMD void pool_backward_16(const Pooling& all, const float* x, const float* y,
                                  const float* dy, float* dx) {
  pool_backward<16>(all, x, y, dy, dx);
}

class MaxPool final : public Layer {
 public:
  MaxPool(const Activation& in, const Activation& out, std::int64_t window, std::int64_t block)
      : in_(in),
        out_(out),
        block_(block),
        all_{.planes = in.shape[0] * in.shape[1] / block,
             .height = out.shape[2],
             .width = out.shape[3],
             .window = window,
             .row = in.shape[3] * block,
             .plane = in.shape[2] * in.shape[3] * block},
        covered_(in.shape[2] % window == 0 && in.shape[3] % window == 0) {}

  void forward(const Pass&) override {
    (block_ == 8 ? pool_8 : pool_16)(all_, in_.value, out_.value);
  }

  void backward(const Pass&) override {
    if (in_.gradient == nullptr) return;
    if (!covered_) std::fill_n(in_.gradient, in_.floats, 0.0F);
    (block_ == 8 ? pool_backward_8 : pool_backward_16)(all_, in_.value, out_.value, out_.gradient,
                                                       in_.gradient);
  }

 private:
  const Activation in_, out_;
  const std::int64_t block_;
  const Pooling all_;
  const bool covered_;  // Whether every number of the input is in a window.
};

}  // namespace

LayerPtr make_max_pool(PlanContext& context, const arch::Layer& layer, const Activation& in,
                       Activation& out) {
  const std::int64_t block = block_of(in.desc, in.shape);
  if (layer.kind != arch::LayerKind::kMaxPool || layer.padding != 0 ||
      layer.stride != layer.kernel || block == 0) {
    return nullptr;
  }
  const std::vector<std::int64_t> shape = {in.shape[0], in.shape[1], in.shape[2] / layer.kernel,
                                           in.shape[3] / layer.kernel};
  out = context.make_image(
      shape, blocked_desc(shape, block),
      in.gradient == nullptr ? PlanContext::Gradient::kNone : PlanContext::Gradient::kWanted);
  return std::make_unique<MaxPool>(in, out, layer.kernel, block);
}

}  // namespace tandem::model
