// The innermost loops of a matrix product, once for each instruction set. Every element of the
// result is one chain of fused multiply-adds over k = 0, 1, ...: the same bits with any of them.
#pragma once

#include <cstdint>

namespace tandem::model {

// The result's rows, `rows` at most: row r of the left side has its element k at
// left[r * row_step + k * k_step]; the right side lies in panels of `columns` columns, k-major.
struct TileRow {
  std::int64_t rows, columns, depth;
  const float* left;
  std::int64_t row_step, k_step;
  const float* panels;
  float* to;  // Element (r, j) goes to to[r * to_row_step + j * to_column_step].
  std::int64_t to_row_step, to_column_step;
  std::int64_t panel_rows = 0;  // Of which `depth` are used; 0: all.
  bool add = false;             // Each chain goes on from what is there.
};

struct TileKernel {
  std::int64_t rows, columns;  // Of a tile.
  void (*multiply)(const TileRow&);
};

namespace avx2 {
extern const TileKernel kTileKernel;
}
namespace avx512 {
extern const TileKernel kTileKernel;
}

}  // namespace tandem::model
