// Arithmetic on float spans, vectorised (base/simd.h). Every function gives the same bits on every
// machine: element by element, or with a fixed order of additions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

// `into` becomes `from`. As fast as memory is, and allocates nothing, when `into` has held as many
// before.
void copy(std::span<const float> from, std::vector<float>& into);

// into[i] += from[i]. REQUIRES: equal sizes.
void add(std::span<float> into, std::span<const float> from);

// values[i] *= factor.
void scale(std::span<float> values, float factor);

// The sum of squares, in double, in a fixed order.
double sum_of_squares(std::span<const float> values);

// The index of the first NaN or infinity, or values.size() when all are finite.
std::size_t first_not_finite(std::span<const float> values);

}  // namespace tandem
