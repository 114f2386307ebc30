#include "model/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::model {
namespace {

struct Shape {
  std::int64_t m, n, k;
  Transpose a, b;
};

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i * (seed + 3) % 1013));
  return values;
}

float element(const Matrix& of, std::int64_t row, std::int64_t column) {
  return of.transpose == Transpose::kYes ? of.data[column * of.stride + row]
                                         : of.data[row * of.stride + column];
}

// c = a b, and then c += a b. Rows longer than needed on every side, so that a stride taken for a
// width is seen.
void expect_exact(const Shape& shape) {
  SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
  const auto stride = [](Transpose flag, std::int64_t rows, std::int64_t columns) {
    return (flag == Transpose::kYes ? rows : columns) + 3;
  };
  const std::int64_t a_stride = stride(shape.a, shape.m, shape.k),
                     b_stride = stride(shape.b, shape.k, shape.n), c_stride = shape.n + 5;
  const std::vector<float> a = random_floats(a_stride * std::max(shape.m, shape.k), 1),
                           b = random_floats(b_stride * std::max(shape.n, shape.k), 2);
  std::vector<float> c(static_cast<std::size_t>(c_stride * shape.m), -7);
  const Matrix left = {a.data(), a_stride, shape.a}, right = {b.data(), b_stride, shape.b};
  multiply_tiles(shape.m, shape.n, shape.k, left, right, c.data(), c_stride);
  multiply_tiles(shape.m, shape.n, shape.k, left, right, c.data(), c_stride, true);
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < c_stride; ++j) {
      float sum = j < shape.n ? 0.0F : -7.0F;
      for (std::int64_t k = 0; k < 2 * shape.k && j < shape.n; ++k)
        sum = std::fma(element(left, i, k % shape.k), element(right, k % shape.k, j), sum);
      ASSERT_EQ(c[static_cast<std::size_t>(i * c_stride + j)], sum) << i << ", " << j;
    }
  }
}

TEST(TileProduct, IsOneChainOfFusedMultiplyAddsForEveryElement) {
  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  if (!prefers_tiles(64, 512, 784, kNo, kYes)) return;  // No AVX2: libraries only.
  expect_exact({64, 512, 784, kNo, kYes});              // Thin batch: stored the other way round.
  expect_exact({61, 515, 781, kNo, kYes});              // Nothing fits a tile.
  expect_exact({515, 61, 781, kNo, kYes});              // Wide batch.
  expect_exact({512, 784, 64, kYes, kNo});              // A weight gradient.
  expect_exact({511, 783, 63, kYes, kNo});
  expect_exact({1031, 127, 129, kNo, kNo});  // An input's gradient.
  expect_exact({64, 512, 512, kNo, kNo});    // Of a thin batch.
  expect_exact({61, 515, 511, kNo, kNo});
  // Every number of rows that is left over, with tiles of 6 and of 12.
  for (std::int64_t rows = 97; rows <= 108; ++rows) {
    expect_exact({64, rows, 176, kNo, kYes});
    expect_exact({rows, 128, 128, kYes, kNo});
  }
}

TEST(TileProduct, LeavesShapesThatItCannotHoldToTheLibraries) {
  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  EXPECT_FALSE(prefers_tiles(64, 512, 1025, kNo, kYes));
  EXPECT_FALSE(prefers_tiles(512, 784, 1000, kYes, kNo));
  EXPECT_FALSE(prefers_tiles(512, 1 << 20, 64, kYes, kNo));
  EXPECT_FALSE(prefers_tiles(512, 512, 64, kYes, kYes));
  EXPECT_FALSE(prefers_tiles(1, 1, 64, kNo, kYes));
}

}  // namespace
}  // namespace tandem::model
