#include "model/winograd.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/simd.h"

namespace tandem::model::winograd {
namespace {

// Walks over (sample, block of channels, tile row, tile column); `visit` gets the block's first
// channel and its plane, the tile's place in the image, and where its channels begin in each of the
// 16 matrices.
template <typename Visit>
[[gnu::always_inline]] inline void for_each_tile(const Image& image, const Tiles& tiles,
                                                 Visit visit) {
  const std::int64_t blocks = image.channels / image.block;
  const std::int64_t rows = tiles.grid.rows, columns = tiles.grid.columns;
  const std::int64_t sample = rows * columns;
  for (std::int64_t begin = tiles.begin; begin < tiles.end;) {
    const std::int64_t n = begin / sample, end = std::min(tiles.end, (n + 1) * sample);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t channel = b * image.block;
      const std::int64_t plane = (n * blocks + b) * image.height * image.width * image.block;
      std::int64_t at = channel / tiles.panel * tiles.count() * tiles.panel +
                        channel % tiles.panel + (begin - tiles.begin) * tiles.panel;
      std::int64_t r = begin % sample / columns, c = begin % sample % columns;
      for (std::int64_t tile = begin; tile < end; ++tile) {
        visit(channel, plane, 2 * r, 2 * c, at);
        at += tiles.panel;
        if (++c < columns) continue;
        c = 0;
        ++r;
      }
    }
    begin = end;
  }
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline Vector<kBlock> load(const float* from) {
  Vector<kBlock> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline Vector<kBlock> load_or_zero(const Image& image, const float* plane,
                                                          std::int64_t row, std::int64_t column) {
  if (row < 0 || row >= image.height || column < 0 || column >= image.width)
    return Vector<kBlock>{};
  return load<kBlock>(plane + (row * image.width + column) * kBlock);
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void store(const Vector<kBlock>& value, float* to) {
  std::memcpy(to, &value, sizeof value);
}

// B^T d B, where `element(i, j)` is d's.
template <std::int64_t kBlock, typename Element>
[[gnu::always_inline]] inline void input_tile(Element element, float* to, std::int64_t matrix) {
  Vector<kBlock> half[4][4];
#pragma GCC unroll 4
  for (std::int64_t j = 0; j < 4; ++j) {
    const Vector<kBlock> a = element(0, j), b = element(1, j), c = element(2, j), d = element(3, j);
    half[0][j] = a - c;
    half[1][j] = b + c;
    half[2][j] = c - b;
    half[3][j] = b - d;
  }
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < 4; ++i) {
    float* out = to + i * 4 * matrix;
    store<kBlock>(half[i][0] - half[i][2], out);
    store<kBlock>(half[i][1] + half[i][2], out + matrix);
    store<kBlock>(half[i][2] - half[i][1], out + 2 * matrix);
    store<kBlock>(half[i][1] - half[i][3], out + 3 * matrix);
  }
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void input_tiles(const Image& image, const Tiles& tiles,
                                               std::int64_t padding, const float* x, float* to) {
  const std::int64_t matrix = tiles.matrix(image.channels);
  for_each_tile(
      image, tiles,
      [&](std::int64_t, std::int64_t plane, std::int64_t row, std::int64_t column, std::int64_t at)
          __attribute__((always_inline)) {
            row -= padding;
            column -= padding;
            const bool inside =
                row >= 0 && row + 4 <= image.height && column >= 0 && column + 4 <= image.width;
            const float* from = x + plane + (row * image.width + column) * kBlock;
            if (inside) {
              input_tile<kBlock>(
                  [&](std::int64_t i, std::int64_t j) __attribute__((always_inline)) {
                    return load<kBlock>(from + (i * image.width + j) * kBlock);
                  },
                  to + at, matrix);
              return;
            }
            input_tile<kBlock>(
                [&](std::int64_t i, std::int64_t j) __attribute__((always_inline)) {
                  return load_or_zero<kBlock>(image, x + plane, row + i, column + j);
                },
                to + at, matrix);
          });
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void finish_and_store(Vector<kBlock> value, const float* bias,
                                                    float least, float* to) {
  value += load<kBlock>(bias);
  const Vector<kBlock> floor = Vector<kBlock>{} + least;
  store<kBlock>(value < floor ? floor : value, to);  // NaN stays.
}

// A^T m A.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline void output_tiles(const Image& result, const Tiles& tiles,
                                                const float* products, const Finish& finish,
                                                float* y) {
  constexpr float kNoBias[kBlock] = {};
  const float least =
      finish.activate == Activate::kRelu ? 0.0F : -std::numeric_limits<float>::infinity();
  const std::int64_t matrix = tiles.matrix(result.channels);
  for_each_tile(
      result, tiles,
      [&](std::int64_t channel, std::int64_t plane, std::int64_t row, std::int64_t column,
          std::int64_t at) __attribute__((always_inline)) {
        const float* bias = finish.bias == nullptr ? kNoBias : finish.bias + channel;
        Vector<kBlock> half[2][4];
#pragma GCC unroll 4
        for (std::int64_t j = 0; j < 4; ++j) {
          Vector<kBlock> m[4];
          for (std::int64_t i = 0; i < 4; ++i)
            m[i] = load<kBlock>(products + (i * 4 + j) * matrix + at);
          half[0][j] = m[0] + m[1] + m[2];
          half[1][j] = m[1] - m[2] - m[3];
        }
        for (std::int64_t i = 0; i < 2 && row + i < result.height; ++i) {
          float* out = y + plane + ((row + i) * result.width + column) * kBlock;
          finish_and_store<kBlock>(half[i][0] + half[i][1] + half[i][2], bias, least, out);
          if (column + 1 < result.width) {
            finish_and_store<kBlock>(half[i][1] - half[i][2] - half[i][3], bias, least,
                                     out + kBlock);
          }
        }
      });
}

// A dy A^T.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline void gradient_tiles(const Image& result, const Tiles& tiles,
                                                  const float* dy, float* to) {
  const std::int64_t matrix = tiles.matrix(result.channels);
  for_each_tile(
      result, tiles,
      [&](std::int64_t, std::int64_t plane, std::int64_t row, std::int64_t column,
          std::int64_t at) __attribute__((always_inline)) {
        Vector<kBlock> half[4][2];
#pragma GCC unroll 4
        for (std::int64_t j = 0; j < 2; ++j) {
          const Vector<kBlock> first = load_or_zero<kBlock>(result, dy + plane, row, column + j);
          const Vector<kBlock> second =
              load_or_zero<kBlock>(result, dy + plane, row + 1, column + j);
          half[0][j] = first;
          half[1][j] = first + second;
          half[2][j] = first - second;
          half[3][j] = -second;
        }
#pragma GCC unroll 4
        for (std::int64_t i = 0; i < 4; ++i) {
          float* out = to + i * 4 * matrix + at;
          store<kBlock>(half[i][0], out);
          store<kBlock>(half[i][0] + half[i][1], out + matrix);
          store<kBlock>(half[i][0] - half[i][1], out + 2 * matrix);
          store<kBlock>(-half[i][1], out + 3 * matrix);
        }
      });
}

// One block of channels of one sample; returns their sums, of even and odd pixels apart.
template <std::int64_t kBlock>
[[gnu::always_inline]] inline Vector<kBlock> mask_and_sum(const float* y, float* dy,
                                                          std::int64_t pixels, float least) {
  const Vector<kBlock> floor = Vector<kBlock>{} + least;
  Vector<kBlock> sums[2] = {};
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    Vector<kBlock> value = load<kBlock>(dy + pixel * kBlock);
    value = load<kBlock>(y + pixel * kBlock) > floor ? value : Vector<kBlock>{};
    store<kBlock>(value, dy + pixel * kBlock);
    sums[pixel % 2] = sums[pixel % 2] + value;
  }
  return sums[0] + sums[1];
}

template <std::int64_t kBlock>
[[gnu::always_inline]] inline void mask_and_sum(const Image& result, float least, const float* y,
                                                float* dy, float* bias_gradient) {
  const std::int64_t blocks = result.channels / kBlock, pixels = result.height * result.width;
  for (std::int64_t b = 0; b < blocks; ++b) {
    Vector<kBlock> sum = {};
    for (std::int64_t n = 0; n < result.samples; ++n) {
      const std::int64_t plane = (n * blocks + b) * pixels * kBlock;
      sum = sum + mask_and_sum<kBlock>(y + plane, dy + plane, pixels, least);
    }
    if (bias_gradient != nullptr) store<kBlock>(sum, bias_gradient + b * kBlock);
  }
}

TANDEM_SIMD void mask_and_sum_8(const Image& result, float least, const float* y, float* dy,
                                float* bias_gradient) {
  mask_and_sum<8>(result, least, y, dy, bias_gradient);
}
TANDEM_SIMD void mask_and_sum_16(const Image& result, float least, const float* y, float* dy,
                                 float* bias_gradient) {
  mask_and_sum<16>(result, least, y, dy, bias_gradient);
}

TANDEM_SIMD void input_tiles_8(const Image& image, const Tiles& tiles, std::int64_t padding,
                               const float* x, float* to) {
  input_tiles<8>(image, tiles, padding, x, to);
}
TANDEM_SIMD void input_tiles_16(const Image& image, const Tiles& tiles, std::int64_t padding,
                                const float* x, float* to) {
  input_tiles<16>(image, tiles, padding, x, to);
}
TANDEM_SIMD void output_tiles_8(const Image& result, const Tiles& tiles, const float* products,
                                const Finish& finish, float* y) {
  output_tiles<8>(result, tiles, products, finish, y);
}
TANDEM_SIMD void output_tiles_16(const Image& result, const Tiles& tiles, const float* products,
                                 const Finish& finish, float* y) {
  output_tiles<16>(result, tiles, products, finish, y);
}
TANDEM_SIMD void gradient_tiles_8(const Image& result, const Tiles& tiles, const float* dy,
                                  float* to) {
  gradient_tiles<8>(result, tiles, dy, to);
}
TANDEM_SIMD void gradient_tiles_16(const Image& result, const Tiles& tiles, const float* dy,
                                   float* to) {
  gradient_tiles<16>(result, tiles, dy, to);
}

// Filters are handled kFilters at a time, turned so that each of their numbers is a vector.
constexpr std::int64_t kFilters = 16;
using Filters = Vector<kFilters>;

// One row or column of G g: (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2).
[[gnu::always_inline]] inline void spread(const Filters& a, const Filters& b, const Filters& c,
                                          Filters out[4]) {
  out[0] = a;
  for (std::int64_t i = 0; i < kFilters; ++i) {
    out[1][i] = 0.5F * (a[i] + b[i] + c[i]);
    out[2][i] = 0.5F * (a[i] - b[i] + c[i]);
  }
  out[3] = c;
}

// One row or column of G^T u.
[[gnu::always_inline]] inline void gather(const Filters& a, const Filters& b, const Filters& c,
                                          const Filters& d, Filters out[3]) {
  for (std::int64_t i = 0; i < kFilters; ++i) {
    out[0][i] = a[i] + 0.5F * (b[i] + c[i]);
    out[1][i] = 0.5F * (b[i] - c[i]);
    out[2][i] = 0.5F * (b[i] + c[i]) + d[i];
  }
}

TANDEM_SIMD void weight_matrices(std::int64_t filters, const float* weights, float* matrices) {
  for (std::int64_t first = 0; first < filters; first += kFilters) {
    const std::int64_t count = std::min(kFilters, filters - first);
    Filters g[3][3] = {};
    for (std::int64_t f = 0; f < count; ++f) {
      for (std::int64_t k = 0; k < 9; ++k) g[k / 3][k % 3][f] = weights[(first + f) * 9 + k];
    }
    Filters half[4][3];
    for (std::int64_t j = 0; j < 3; ++j) {
      Filters column[4];
      spread(g[0][j], g[1][j], g[2][j], column);
      for (std::int64_t i = 0; i < 4; ++i) half[i][j] = column[i];
    }
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < 4; ++i) {
      Filters row[4];
      spread(half[i][0], half[i][1], half[i][2], row);
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < 4; ++j) {
        float* out = matrices + (i * 4 + j) * filters + first;
        for (std::int64_t f = 0; f < count; ++f) out[f] = row[j][f];
      }
    }
  }
}

TANDEM_SIMD void weights_back(std::int64_t filters, const float* matrices, float* weights) {
  for (std::int64_t first = 0; first < filters; first += kFilters) {
    const std::int64_t count = std::min(kFilters, filters - first);
    Filters half[3][4];
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < 4; ++j) {
      Filters u[4] = {};
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < 4; ++i) {
        const float* from = matrices + (i * 4 + j) * filters + first;
        for (std::int64_t f = 0; f < count; ++f) u[i][f] = from[f];
      }
      Filters column[3];
      gather(u[0], u[1], u[2], u[3], column);
      for (std::int64_t i = 0; i < 3; ++i) half[i][j] = column[i];
    }
    for (std::int64_t i = 0; i < 3; ++i) {
      Filters row[3];
      gather(half[i][0], half[i][1], half[i][2], half[i][3], row);
      for (std::int64_t f = 0; f < count; ++f) {
        for (std::int64_t j = 0; j < 3; ++j) weights[(first + f) * 9 + i * 3 + j] = row[j][f];
      }
    }
  }
}

}  // namespace

void transform_input(const Image& image, const Tiles& tiles, std::int64_t padding, const float* x,
                     float* to) {
  TANDEM_CHECK(image.block == 8 || image.block == 16);
  (image.block == 8 ? input_tiles_8 : input_tiles_16)(image, tiles, padding, x, to);
}

void transform_output(const Image& result, const Tiles& tiles, const float* products,
                      const Finish& finish, float* y) {
  TANDEM_CHECK(result.block == 8 || result.block == 16);
  (result.block == 8 ? output_tiles_8 : output_tiles_16)(result, tiles, products, finish, y);
}

void finish_backward(const Image& result, Activate activate, const float* y, float* dy,
                     float* bias_gradient) {
  TANDEM_CHECK(result.block == 8 || result.block == 16);
  const float least = activate == Activate::kRelu ? 0.0F : -std::numeric_limits<float>::infinity();
  (result.block == 8 ? mask_and_sum_8 : mask_and_sum_16)(result, least, y, dy, bias_gradient);
}

void transform_gradient(const Image& result, const Tiles& tiles, const float* dy, float* to) {
  TANDEM_CHECK(result.block == 8 || result.block == 16);
  (result.block == 8 ? gradient_tiles_8 : gradient_tiles_16)(result, tiles, dy, to);
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
