// Row-major matrix products through our own tiles, BLAS or oneDNN, whichever is faster for the
// shape. Leading dimensions let callers work on parts of larger matrices in place.
#pragma once

#include <cstdint>

namespace tandem::model {

enum class Transpose : std::uint8_t { kNo, kYes };

struct Matrix {
  const float* data;
  std::int64_t stride;  // Floats from one row to the next.
  Transpose transpose = Transpose::kNo;
};

// c = alpha * a b + beta * c, where a is m x k and b is k x n after their transposes, and c has
// rows of c_stride.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c,
              std::int64_t c_stride, float beta = 0, float alpha = 1);

}  // namespace tandem::model
