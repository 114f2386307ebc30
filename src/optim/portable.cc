#include "optim/portable.h"

#include <numbers>

#include "base/check.h"

namespace tandem::optim {

double power(double base, std::int64_t exponent) {
  TANDEM_CHECK(exponent >= 0);
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

double cos_pi(double turn) {
  TANDEM_CHECK(turn >= 0 && turn <= 1);
  if (turn > 0.5) return -cos_pi(1 - turn);
  // Taylor's series up to x^22, whose first missing term is below 1e-19 for x <= pi/2, from the
  // inside out.
  const double x = std::numbers::pi * turn;
  double sum = 1;
  for (int k = 22; k > 0; k -= 2) sum = 1 - sum * (x * x) / (k * (k - 1));
  return sum;
}

}  // namespace tandem::optim
