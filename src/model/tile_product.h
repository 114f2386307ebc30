// Our own product of matrices whose packed side fits the second-level cache, where the libraries
// lose time to packing weights and clearing results: thin batches and their weight gradients.
#pragma once

#include "model/matmul.h"
#include "model/tile_kernel.h"

namespace tandem::model {

// For the instruction set that the job's nodes agreed on; null on processors without AVX2.
const TileKernel* tile_kernel();

// The right side of a product, k-major in panels of `width` columns; the last one is filled up.
void pack_right(Matrix b, std::int64_t depth, std::int64_t columns, std::int64_t width, float* to);

// Whether c = a b of this shape is worth it, by a rule and not by a measurement at run time: the
// choice is part of a run's bits. Never on processors without AVX2.
bool prefers_tiles(std::int64_t m, std::int64_t n, std::int64_t k, Transpose a, Transpose b);

// c = a b, or c += a b, for shapes that prefers_tiles() accepts with one of the kernels.
void multiply_tiles(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c,
                    std::int64_t c_stride, bool add = false);

}  // namespace tandem::model
