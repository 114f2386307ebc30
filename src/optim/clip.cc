#include "optim/clip.h"

#include <cmath>

#include "base/check.h"
#include "base/simd.h"
#include "base/span_math.h"

namespace tandem::optim {
namespace {

// Leaves NaN as it is, for the trainer to find.
TANDEM_SIMD void clamp_kernel(float* values, std::size_t count, float limit) {
  for (std::size_t i = 0; i < count; ++i) {
    const float capped = values[i] > limit ? limit : values[i];
    values[i] = capped < -limit ? -limit : capped;
  }
}

template <typename T>
std::span<T> part(std::span<T> gradients, Range range) {
  TANDEM_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= std::ssize(gradients));
  return gradients.subspan(static_cast<std::size_t>(range.begin),
                           static_cast<std::size_t>(range.end - range.begin));
}

}  // namespace

void clip_by_value(std::span<float> gradients, const ClipConfig& config,
                   std::span<const Range> trainable) {
  if (config.value <= 0) return;
  for (const Range& range : trainable) {
    const std::span<float> trained = part(gradients, range);
    clamp_kernel(trained.data(), trained.size(), static_cast<float>(config.value));
  }
}

Clipping clip_by_norm(std::span<const float> gradients, const ClipConfig& config,
                      std::span<const Range> trainable) {
  Clipping result;
  if (config.norm <= 0) return result;
  double squares = 0;
  for (const Range& range : trainable) squares += sum_of_squares(part(gradients, range));
  result.norm = std::sqrt(squares);
  const double scale = config.norm / (result.norm + 1e-6);
  result.scale = scale > 1 ? 1 : scale;
  return result;
}

double clip(std::span<float> gradients, const ClipConfig& config) {
  const Range whole{0, std::ssize(gradients)};
  clip_by_value(gradients, config, std::span(&whole, 1));
  const Clipping clipping = clip_by_norm(gradients, config, std::span(&whole, 1));
  if (clipping.scale != 1) scale(gradients, static_cast<float>(clipping.scale));
  return clipping.norm;
}

}  // namespace tandem::optim
