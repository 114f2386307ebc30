#include "base/span_math.h"

#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/simd.h"

namespace tandem {
namespace {

TANDEM_SIMD void add_kernel(float* __restrict into, const float* __restrict from,
                            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) into[i] += from[i];
}

TANDEM_SIMD void scale_kernel(float* values, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

TANDEM_SIMD double sum_of_squares_kernel(const float* values, std::size_t count) {
  double lanes[kSimdLanes] = {};
  std::size_t i = 0;
  for (; i + kSimdLanes <= count; i += kSimdLanes) {
    for (std::size_t lane = 0; lane < kSimdLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (; i < count; ++i) {
    const double value = values[i];
    lanes[i % kSimdLanes] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

// Exponent bits all set: NaN or infinity.
constexpr std::uint32_t kExponent = 0x7f800000U;

TANDEM_SIMD bool any_not_finite(const float* values, std::size_t count) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    found |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return found != 0;
}

}  // namespace

void copy(std::span<const float> from, std::vector<float>& into) {
  into.assign(from.begin(), from.end());
}

void add(std::span<float> into, std::span<const float> from) {
  TANDEM_CHECK(into.size() == from.size());
  add_kernel(into.data(), from.data(), into.size());
}

void scale(std::span<float> values, float factor) {
  scale_kernel(values.data(), factor, values.size());
}

double sum_of_squares(std::span<const float> values) {
  return sum_of_squares_kernel(values.data(), values.size());
}

std::size_t first_not_finite(std::span<const float> values) {
  if (!any_not_finite(values.data(), values.size())) return values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent) return i;
  }
  return values.size();
}

}  // namespace tandem
