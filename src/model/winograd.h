// 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3): images are cut into tiles whose 2x2
// results need 16 products instead of 36, which become 16 matrix products over channels. Forward,
// and both backward passes.
//
// Images lie in blocks of channels. Transformed tiles are 16 matrices, one for each place of a 4x4
// tile; transformed weights 16 of [outputs][inputs]. Pure functions; the sums have a fixed order.
//
// A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/blocked_image.h"
#include "model/kernels.h"

namespace tandem::model::winograd {

inline constexpr std::int64_t kPlaces = 16;  // Of a 4x4 tile.

// The tiles that cover an image of results.
struct Grid {
  std::int64_t rows, columns;
  static Grid over(const Image& result) {
    return {(result.height + 1) / 2, (result.width + 1) / 2};
  }
  std::int64_t tiles(std::int64_t samples) const { return samples * rows * columns; }
};

// Some tiles of a batch, counted over samples, rows and columns, and how each of the 16 matrices of
// their transforms lies: [channels / panel][tiles][panel]. `panel` is a multiple of the block.
struct Tiles {
  Grid grid;
  std::int64_t begin, end, panel;
  static Tiles all(const Grid& grid, const Image& image) {
    return {grid, 0, grid.tiles(image.samples), image.channels};
  }
  std::int64_t count() const { return end - begin; }
  // From one matrix to the next; not a power of two, or they would share few lines of the cache.
  std::int64_t matrix(std::int64_t channels) const { return count() * channels + 16; }
  std::int64_t floats(std::int64_t channels) const { return kPlaces * matrix(channels); }
};

// The 4x4 tiles of `image`, padded with zeros, transformed for multiplication.
void transform_input(const Image& image, const Tiles& tiles, std::int64_t padding, const float* x,
                     float* to);

// What is done to the results: y = activate(y + bias), where bias has a number for each channel.
struct Finish {
  const float* bias = nullptr;  // Or null.
  Activate activate = Activate::kNone;
};
// The results' 2x2 pieces from products.
void transform_output(const Image& result, const Tiles& tiles, const float* products,
                      const Finish& finish, float* y);
// Undoes Finish in dy: with kRelu it is zeroed where y is not positive; bias_gradient, unless it is
// null, gets the sums of the channels.
void finish_backward(const Image& result, Activate activate, const float* y, float* dy,
                     float* bias_gradient);
// What the gradient of the results gives to the products.
void transform_gradient(const Image& result, const Tiles& tiles, const float* dy, float* to);

// Turning a filter by 180 degrees exchanges the first and last row and column of its transform.
inline std::int64_t turned(std::int64_t place) {
  constexpr std::int64_t kTurned[] = {3, 1, 2, 0};
  return kTurned[place / 4] * 4 + kTurned[place % 4];
}

// weights [outputs][inputs][3][3] to 16 matrices [outputs][inputs], and a gradient of those back.
void transform_weights(std::int64_t outputs, std::int64_t inputs, const float* weights,
                       float* matrices);
void restore_weights(std::int64_t outputs, std::int64_t inputs, const float* matrices,
                     float* weights);

}  // namespace tandem::model::winograd
