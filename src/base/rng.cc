#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tandem {

float Rng::normal() {
  // Box and Muller's transform in double: libm's rounding then cannot reach the float's bits in
  // practice.
  const double first = (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53;
  const double second = static_cast<double>(next() >> 11) * 0x1.0p-53;
  return static_cast<float>(std::sqrt(-2.0 * std::log(first)) *
                            std::cos(2.0 * std::numbers::pi * second));
}

std::uint64_t Rng::below(std::uint64_t bound) {
  TANDEM_CHECK(bound > 0);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
}

}  // namespace tandem
