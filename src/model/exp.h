// The exponential as plain arithmetic, so that loops over it vectorise and every instruction set
// gives the same bits. Error below 2 units in the last place for arguments in [-87, 88]; smaller
// ones give 0, larger ones a large finite number.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem::model {

inline float fast_exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound =
      12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number in the low bits.
  const float bounded = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  const float shifted = bounded * kLog2E + kRound;
  const float whole = shifted - kRound;
  const float rest = (bounded - whole * kLn2High) - whole * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * rest + 1.3981999507e-3F;
  p = p * rest + 8.3334519073e-3F;
  p = p * rest + 4.1665795894e-2F;
  p = p * rest + 1.6666665459e-1F;
  p = p * rest + 5.0000001201e-1F;
  p = p * rest * rest + rest + 1.0F;
  const std::uint32_t power =
      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound) + 127U) << 23;
  return x < -87.0F ? 0.0F : p * std::bit_cast<float>(power);
}

}  // namespace tandem::model
