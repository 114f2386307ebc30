#include "optim/clip.h"

#include <algorithm>
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

// Calls back with the sum of squares of each block that the gradients, which begin at float `begin`
// of the vector, touch.
template <typename Take>
void for_each_block(std::span<const float> gradients, std::size_t begin,
                    std::span<const Range> trainable, Take take) {
  for (std::size_t at = begin; at < begin + gradients.size();) {
    const std::size_t end =
        std::min((at / kSquaresBlock + 1) * kSquaresBlock, begin + gradients.size());
    double sum = 0;
    for (const Range& range : trainable) {
      const std::size_t from = std::max(at, static_cast<std::size_t>(range.begin));
      const std::size_t to = std::min(end, static_cast<std::size_t>(range.end));
      if (from < to) sum += sum_of_squares(gradients.subspan(from - begin, to - from));
    }
    take(sum);
    at = end;
  }
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

void add_squares(std::span<const float> gradients, std::size_t begin,
                 std::span<const Range> trainable, std::vector<double>& squares) {
  for_each_block(gradients, begin, trainable, [&](double sum) { squares.push_back(sum); });
}

Clipping clipping_of(double squares, const ClipConfig& config) {
  Clipping result;
  if (config.norm <= 0) return result;
  result.norm = std::sqrt(squares);
  const double scale = config.norm / (result.norm + 1e-6);
  result.scale = scale > 1 ? 1 : scale;
  return result;
}

Clipping clip_by_norm(std::span<const float> gradients, const ClipConfig& config,
                      std::span<const Range> trainable) {
  if (config.norm <= 0) return {};
  for (const Range& range : trainable) part(gradients, range);  // Checks it.
  double squares = 0;
  for_each_block(gradients, 0, trainable, [&](double sum) { squares += sum; });
  return clipping_of(squares, config);
}

double clip(std::span<float> gradients, const ClipConfig& config) {
  const Range whole{0, std::ssize(gradients)};
  clip_by_value(gradients, config, std::span(&whole, 1));
  const Clipping clipping = clip_by_norm(gradients, config, std::span(&whole, 1));
  if (clipping.scale != 1) scale(gradients, static_cast<float>(clipping.scale));
  return clipping.norm;
}

}  // namespace tandem::optim
