// 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3): images are cut into tiles whose 2x2
// results need 16 products instead of 36, which become 16 matrix products over channels. Forward,
// and both backward passes.
//
// Images lie in blocked layouts: [n][channels / block][height][width][block]. Transformed tiles are
// 16 matrices, one for each place of a 4x4 tile, of [tiles][channels]; transformed weights 16 of
// [outputs][inputs]. Pure functions; the sums have a fixed order.
//
// A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::model::winograd {

inline constexpr std::int64_t kPlaces = 16;  // Of a 4x4 tile.

struct Image {
  std::int64_t samples, channels, height, width;
  std::int64_t block;  // 8 or 16; divides channels.
};

// The tiles that cover an image of results.
struct Grid {
  std::int64_t rows, columns;
  static Grid over(const Image& result) {
    return {(result.height + 1) / 2, (result.width + 1) / 2};
  }
  std::int64_t tiles(std::int64_t samples) const { return samples * rows * columns; }
};

// Floats of an image's transformed tiles.
std::int64_t tile_floats(const Grid& grid, std::int64_t samples, std::int64_t channels);

// The 4x4 tiles of `image`, padded with zeros, transformed for multiplication.
void transform_input(const Image& image, const Grid& grid, std::int64_t padding, const float* x,
                     float* tiles);
// The results' 2x2 pieces from products.
void transform_output(const Image& result, const Grid& grid, const float* products, float* y);
// What the gradient of the results gives to the products.
void transform_gradient(const Image& result, const Grid& grid, const float* dy, float* tiles);

// weights [outputs][inputs][3][3] to 16 matrices [outputs][inputs], and a gradient of those back.
void transform_weights(std::int64_t outputs, std::int64_t inputs, const float* weights,
                       float* matrices);
void restore_weights(std::int64_t outputs, std::int64_t inputs, const float* matrices,
                     float* weights);

}  // namespace tandem::model::winograd
