#include "model/winograd.h"

#include <algorithm>

#include "base/check.h"
#include "base/simd.h"

namespace tandem::model::winograd {
namespace {

template <std::int64_t kBlock>
struct Vector {
  float at[kBlock];
};

template <std::int64_t kBlock>
[[gnu::always_inline]] inline Vector<kBlock> operator+(const Vector<kBlock>& a,
                                                       const Vector<kBlock>& b) {
  Vector<kBlock> sum;
  for (std::int64_t i = 0; i < kBlock; ++i) sum.at[i] = a.at[i] + b.at[i];
  return sum;
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline Vector<kBlock> operator-(const Vector<kBlock>& a,
                                                       const Vector<kBlock>& b) {
  Vector<kBlock> difference;
  for (std::int64_t i = 0; i < kBlock; ++i) difference.at[i] = a.at[i] - b.at[i];
  return difference;
}

// Walks over (sample, block of channels, tile row, tile column); `visit` gets the block's plane,
// the tile's place in the image, and where its channels begin in each of the 16 matrices.
template <typename Visit>
[[gnu::always_inline]] inline void for_each_tile(const Image& image, const Grid& grid,
                                                 Visit visit) {
  const std::int64_t blocks = image.channels / image.block;
  for (std::int64_t n = 0; n < image.samples; ++n) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t plane = (n * blocks + b) * image.height * image.width * image.block;
      for (std::int64_t r = 0; r < grid.rows; ++r) {
        for (std::int64_t c = 0; c < grid.columns; ++c) {
          const std::int64_t tile = (n * grid.rows + r) * grid.columns + c;
          visit(plane, 2 * r, 2 * c, tile * image.channels + b * image.block);
        }
      }
    }
  }
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline Vector<kBlock> load_or_zero(const Image& image, const float* plane,
                                                          std::int64_t row, std::int64_t column) {
  Vector<kBlock> value = {};
  if (row < 0 || row >= image.height || column < 0 || column >= image.width) return value;
  const float* from = plane + (row * image.width + column) * kBlock;
  for (std::int64_t i = 0; i < kBlock; ++i) value.at[i] = from[i];
  return value;
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void store(const Vector<kBlock>& value, float* to) {
  for (std::int64_t i = 0; i < kBlock; ++i) to[i] = value.at[i];
}

// B^T d B.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline void input_tiles(const Image& image, const Grid& grid,
                                               std::int64_t padding, const float* x, float* tiles) {
  const std::int64_t matrix = grid.tiles(image.samples) * image.channels;
  for_each_tile(
      image, grid, [&](std::int64_t plane, std::int64_t row, std::int64_t column, std::int64_t at) {
        Vector<kBlock> half[4][4];
        for (std::int64_t j = 0; j < 4; ++j) {
          Vector<kBlock> d[4];
          for (std::int64_t i = 0; i < 4; ++i) {
            d[i] = load_or_zero<kBlock>(image, x + plane, row + i - padding, column + j - padding);
          }
          half[0][j] = d[0] - d[2];
          half[1][j] = d[1] + d[2];
          half[2][j] = d[2] - d[1];
          half[3][j] = d[1] - d[3];
        }
        for (std::int64_t i = 0; i < 4; ++i) {
          float* out = tiles + i * 4 * matrix + at;
          store(half[i][0] - half[i][2], out);
          store(half[i][1] + half[i][2], out + matrix);
          store(half[i][2] - half[i][1], out + 2 * matrix);
          store(half[i][1] - half[i][3], out + 3 * matrix);
        }
      });
}

// A^T m A.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline void output_tiles(const Image& result, const Grid& grid,
                                                const float* products, float* y) {
  const std::int64_t matrix = grid.tiles(result.samples) * result.channels;
  for_each_tile(result, grid,
                [&](std::int64_t plane, std::int64_t row, std::int64_t column, std::int64_t at) {
                  Vector<kBlock> half[2][4];
                  for (std::int64_t j = 0; j < 4; ++j) {
                    Vector<kBlock> m[4];
                    for (std::int64_t i = 0; i < 4; ++i) {
                      const float* from = products + (i * 4 + j) * matrix + at;
                      for (std::int64_t k = 0; k < kBlock; ++k) m[i].at[k] = from[k];
                    }
                    half[0][j] = m[0] + m[1] + m[2];
                    half[1][j] = m[1] - m[2] - m[3];
                  }
                  for (std::int64_t i = 0; i < 2 && row + i < result.height; ++i) {
                    float* out = y + plane + ((row + i) * result.width + column) * kBlock;
                    store(half[i][0] + half[i][1] + half[i][2], out);
                    if (column + 1 < result.width)
                      store(half[i][1] - half[i][2] - half[i][3], out + kBlock);
                  }
                });
}

// A dy A^T.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline void gradient_tiles(const Image& result, const Grid& grid,
                                                  const float* dy, float* tiles) {
  const std::int64_t matrix = grid.tiles(result.samples) * result.channels;
  for_each_tile(result, grid,
                [&](std::int64_t plane, std::int64_t row, std::int64_t column, std::int64_t at) {
                  Vector<kBlock> half[4][2];
                  for (std::int64_t j = 0; j < 2; ++j) {
                    const Vector<kBlock> first =
                        load_or_zero<kBlock>(result, dy + plane, row, column + j);
                    const Vector<kBlock> second =
                        load_or_zero<kBlock>(result, dy + plane, row + 1, column + j);
                    half[0][j] = first;
                    half[1][j] = first + second;
                    half[2][j] = first - second;
                    half[3][j] = Vector<kBlock>{} - second;
                  }
                  for (std::int64_t i = 0; i < 4; ++i) {
                    float* out = tiles + i * 4 * matrix + at;
                    store(half[i][0], out);
                    store(half[i][0] + half[i][1], out + matrix);
                    store(half[i][0] - half[i][1], out + 2 * matrix);
                    store(Vector<kBlock>{} - half[i][1], out + 3 * matrix);
                  }
                });
}

TANDEM_SIMD void input_tiles_8(const Image& image, const Grid& grid, std::int64_t padding,
                               const float* x, float* tiles) {
  input_tiles<8>(image, grid, padding, x, tiles);
}
TANDEM_SIMD void input_tiles_16(const Image& image, const Grid& grid, std::int64_t padding,
                                const float* x, float* tiles) {
  input_tiles<16>(image, grid, padding, x, tiles);
}
TANDEM_SIMD void output_tiles_8(const Image& result, const Grid& grid, const float* products,
                                float* y) {
  output_tiles<8>(result, grid, products, y);
}
TANDEM_SIMD void output_tiles_16(const Image& result, const Grid& grid, const float* products,
                                 float* y) {
  output_tiles<16>(result, grid, products, y);
}
TANDEM_SIMD void gradient_tiles_8(const Image& result, const Grid& grid, const float* dy,
                                  float* tiles) {
  gradient_tiles<8>(result, grid, dy, tiles);
}
TANDEM_SIMD void gradient_tiles_16(const Image& result, const Grid& grid, const float* dy,
                                   float* tiles) {
  gradient_tiles<16>(result, grid, dy, tiles);
}

// Filters are handled kFilters at a time, turned so that each of their numbers is a vector.
constexpr std::int64_t kFilters = 16;
using Filters = Vector<kFilters>;

// One row or column of G g: (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2).
[[gnu::always_inline]] inline void spread(const Filters& a, const Filters& b, const Filters& c,
                                          Filters out[4]) {
  out[0] = a;
  for (std::int64_t i = 0; i < kFilters; ++i) {
    out[1].at[i] = 0.5F * (a.at[i] + b.at[i] + c.at[i]);
    out[2].at[i] = 0.5F * (a.at[i] - b.at[i] + c.at[i]);
  }
  out[3] = c;
}

// One row or column of G^T u.
[[gnu::always_inline]] inline void gather(const Filters& a, const Filters& b, const Filters& c,
                                          const Filters& d, Filters out[3]) {
  for (std::int64_t i = 0; i < kFilters; ++i) {
    out[0].at[i] = a.at[i] + 0.5F * (b.at[i] + c.at[i]);
    out[1].at[i] = 0.5F * (b.at[i] - c.at[i]);
    out[2].at[i] = 0.5F * (b.at[i] + c.at[i]) + d.at[i];
  }
}

TANDEM_SIMD void weight_matrices(std::int64_t filters, const float* weights, float* matrices) {
  for (std::int64_t first = 0; first < filters; first += kFilters) {
    const std::int64_t count = std::min(kFilters, filters - first);
    Filters g[3][3] = {};
    for (std::int64_t f = 0; f < count; ++f) {
      for (std::int64_t k = 0; k < 9; ++k) g[k / 3][k % 3].at[f] = weights[(first + f) * 9 + k];
    }
    Filters half[4][3];
    for (std::int64_t j = 0; j < 3; ++j) {
      Filters column[4];
      spread(g[0][j], g[1][j], g[2][j], column);
      for (std::int64_t i = 0; i < 4; ++i) half[i][j] = column[i];
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      Filters row[4];
      spread(half[i][0], half[i][1], half[i][2], row);
      for (std::int64_t j = 0; j < 4; ++j) {
        float* out = matrices + (i * 4 + j) * filters + first;
        for (std::int64_t f = 0; f < count; ++f) out[f] = row[j].at[f];
      }
    }
  }
}

TANDEM_SIMD void weights_back(std::int64_t filters, const float* matrices, float* weights) {
  for (std::int64_t first = 0; first < filters; first += kFilters) {
    const std::int64_t count = std::min(kFilters, filters - first);
    Filters half[3][4];
    for (std::int64_t j = 0; j < 4; ++j) {
      Filters u[4] = {};
      for (std::int64_t i = 0; i < 4; ++i) {
        const float* from = matrices + (i * 4 + j) * filters + first;
        for (std::int64_t f = 0; f < count; ++f) u[i].at[f] = from[f];
      }
      Filters column[3];
      gather(u[0], u[1], u[2], u[3], column);
      for (std::int64_t i = 0; i < 3; ++i) half[i][j] = column[i];
    }
    for (std::int64_t i = 0; i < 3; ++i) {
      Filters row[3];
      gather(half[i][0], half[i][1], half[i][2], half[i][3], row);
      for (std::int64_t f = 0; f < count; ++f) {
        for (std::int64_t j = 0; j < 3; ++j) weights[(first + f) * 9 + i * 3 + j] = row[j].at[f];
      }
    }
  }
}

}  // namespace

std::int64_t tile_floats(const Grid& grid, std::int64_t samples, std::int64_t channels) {
  return kPlaces * grid.tiles(samples) * channels;
}

void transform_input(const Image& image, const Grid& grid, std::int64_t padding, const float* x,
                     float* tiles) {
  TANDEM_CHECK(image.block == 8 || image.block == 16);
  (image.block == 8 ? input_tiles_8 : input_tiles_16)(image, grid, padding, x, tiles);
}

void transform_output(const Image& result, const Grid& grid, const float* products, float* y) {
  TANDEM_CHECK(result.block == 8 || result.block == 16);
  (result.block == 8 ? output_tiles_8 : output_tiles_16)(result, grid, products, y);
}

void transform_gradient(const Image& result, const Grid& grid, const float* dy, float* tiles) {
  TANDEM_CHECK(result.block == 8 || result.block == 16);
  (result.block == 8 ? gradient_tiles_8 : gradient_tiles_16)(result, grid, dy, tiles);
}

void transform_weights(std::int64_t outputs, std::int64_t inputs, const float* weights,
                       float* matrices) {
  weight_matrices(outputs * inputs, weights, matrices);
}

void restore_weights(std::int64_t outputs, std::int64_t inputs, const float* matrices,
                     float* weights) {
  weights_back(outputs * inputs, matrices, weights);
}

}  // namespace tandem::model::winograd
