// Our own product of matrices whose packed side fits the second-level cache, where the libraries
// lose time to packing weights and clearing results: thin batches and their weight gradients.
#pragma once

#include "model/matmul.h"

namespace tandem::model {

// Whether c = a b of this shape is worth it, by a rule and not by a measurement at run time: the
// choice is part of a run's bits. Never on processors without AVX2.
bool prefers_tiles(std::int64_t m, std::int64_t n, std::int64_t k, Transpose a, Transpose b);

// c = a b, for shapes that prefers_tiles() accepts.
void multiply_tiles(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c,
                    std::int64_t c_stride);

}  // namespace tandem::model
