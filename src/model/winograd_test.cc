#include "model/winograd.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "model/matmul.h"

namespace tandem::model::winograd {
namespace {

std::vector<float> random(std::int64_t count, std::uint64_t seed) {
  Rng rng({seed});
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = rng.normal();
  return values;
}

// Where element (n, c, y, x) of a blocked image lies.
std::size_t at(const Image& image, std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
  const std::int64_t blocks = image.channels / image.block;
  return static_cast<std::size_t>(
      (((n * blocks + c / image.block) * image.height + y) * image.width + x) * image.block +
      c % image.block);
}

std::int64_t floats(const Image& image) {
  return image.samples * image.channels * image.height * image.width;
}

// Calls `visit(y's index, x's index, w's index)` for every product of the convolution.
template <typename Visit>
void for_each_product(const Image& x, const Image& y, std::int64_t padding, Visit visit) {
  for (std::int64_t n = 0; n < y.samples; ++n)
    for (std::int64_t o = 0; o < y.channels; ++o)
      for (std::int64_t i = 0; i < x.channels; ++i)
        for (std::int64_t place = 0; place < y.height * y.width * 9; ++place) {
          const std::int64_t k = place % 9, r = place / 9 / y.width, c = place / 9 % y.width;
          const std::int64_t row = r + k / 3 - padding, column = c + k % 3 - padding;
          if (row < 0 || row >= x.height || column < 0 || column >= x.width) continue;
          visit(at(y, n, o, r, c), at(x, n, i, row, column),
                static_cast<std::size_t>((o * x.channels + i) * 9 + k));
        }
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-4) << i;
}

TEST(Winograd, ForwardAgreesWithTheDefinition) {
  for (const std::int64_t block : {8, 16}) {
    for (const std::int64_t padding : {0, 1, 2}) {
      const Image x{2, 16, 5, 6, block};
      const Image y{2, 32, x.height + 2 * padding - 2, x.width + 2 * padding - 2, block};
      const auto input = random(floats(x), 1), weights = random(32 * 16 * 9, 2);
      std::vector<float> wanted(static_cast<std::size_t>(floats(y))), got(wanted.size());
      for_each_product(x, y, padding,
                       [&](auto to, auto from, auto w) { wanted[to] += input[from] * weights[w]; });
      const Grid grid = Grid::over(y);
      const std::int64_t tiles = grid.tiles(2);
      std::vector<float> u(kPlaces * 32 * 16),
          v(static_cast<std::size_t>(Tiles::all(grid, x).floats(16)));
      std::vector<float> m(static_cast<std::size_t>(Tiles::all(grid, y).floats(32)));
      transform_weights(32, 16, weights.data(), u.data());
      transform_input(x, Tiles::all(grid, x), padding, input.data(), v.data());
      for (std::int64_t p = 0; p < kPlaces; ++p) {
        multiply(tiles, 32, 16, {v.data() + p * Tiles::all(grid, x).matrix(16), 16},
                 {u.data() + p * 512, 16, Transpose::kYes},
                 m.data() + p * Tiles::all(grid, y).matrix(32), 32);
      }
      transform_output(y, Tiles::all(grid, y), m.data(), {}, got.data());
      expect_near(got, wanted);
    }
  }
}

TEST(Winograd, WeightGradientAgreesWithTheDefinition) {
  const Image x{2, 16, 5, 6, 8}, y{2, 24, 5, 6, 8};
  const auto input = random(floats(x), 1), gradient = random(floats(y), 3);
  std::vector<float> wanted(24 * 16 * 9), got(wanted.size());
  for_each_product(x, y, 1,
                   [&](auto to, auto from, auto w) { wanted[w] += input[from] * gradient[to]; });
  const Grid grid = Grid::over(y);
  const std::int64_t tiles = grid.tiles(2);
  std::vector<float> v(static_cast<std::size_t>(Tiles::all(grid, x).floats(16))),
      u(kPlaces * 24 * 16);
  std::vector<float> d(static_cast<std::size_t>(Tiles::all(grid, y).floats(24)));
  transform_input(x, Tiles::all(grid, x), 1, input.data(), v.data());
  transform_gradient(y, Tiles::all(grid, y), gradient.data(), d.data());
  for (std::int64_t p = 0; p < kPlaces; ++p) {
    multiply(24, 16, tiles, {d.data() + p * Tiles::all(grid, y).matrix(24), 24, Transpose::kYes},
             {v.data() + p * Tiles::all(grid, x).matrix(16), 16}, u.data() + p * 384, 16);
  }
  restore_weights(24, 16, u.data(), got.data());
  expect_near(got, wanted);
}

}  // namespace
}  // namespace tandem::model::winograd
