// Powers and cosines that have the same bits on every processor. The C library chooses its pow and
// cos by the instruction set, and their last bits differ; a learning rate that differs in one bit
// ends in other weights. These use additions and multiplications only. Pure functions.
#pragma once

#include <cstdint>

namespace tandem::optim {

// base to the power of exponent, by squaring. REQUIRES: exponent >= 0.
double power(double base, std::int64_t exponent);

// cos(pi * turn), within 1e-15. REQUIRES: 0 <= turn <= 1.
double cos_pi(double turn);

}  // namespace tandem::optim
