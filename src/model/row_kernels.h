// Arithmetic on the rows of tables: what a sample reads of them and what it gives back. Vectorised
// (base/simd.h); the same bits on every instruction set. Pure functions of their arguments.
#pragma once

#include <cstddef>

namespace tandem::model {

// The sum of a[i] * b[i], in a fixed order.
float dot(const float* a, const float* b, std::size_t count);

// into[i] += from[i] * factor.
void accumulate_scaled(float* into, const float* from, float factor, std::size_t count);

}  // namespace tandem::model
