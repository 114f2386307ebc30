// Compiled once for each instruction set (CMakeLists.txt).
#include "model/tile_kernel.h"

#include "model/native_vector.h"

namespace tandem::model::TANDEM_ISA {
namespace {

#ifdef TANDEM_AVX512
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kLanes = kVectorFloats;
constexpr int kTileColumns = 2 * kLanes;

// Four rows of a tile become the same four places in each of its columns.
void store_four_turned(const float* rows, float* to, std::int64_t column_step) {
  for (int j = 0; j < kTileColumns; j += 4) {
    __m128 a = _mm_loadu_ps(rows + j), b = _mm_loadu_ps(rows + kTileColumns + j),
           c = _mm_loadu_ps(rows + 2 * kTileColumns + j),
           d = _mm_loadu_ps(rows + 3 * kTileColumns + j);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to + j * column_step, a);
    _mm_storeu_ps(to + (j + 1) * column_step, b);
    _mm_storeu_ps(to + (j + 2) * column_step, c);
    _mm_storeu_ps(to + (j + 3) * column_step, d);
  }
}

// The same with two rows.
void store_two_turned(const float* rows, float* to, std::int64_t column_step) {
  for (int j = 0; j < kTileColumns; j += 4) {
    const __m128 a = _mm_loadu_ps(rows + j), b = _mm_loadu_ps(rows + kTileColumns + j);
    const __m128 low = _mm_unpacklo_ps(a, b), high = _mm_unpackhi_ps(a, b);
    _mm_storel_pi(reinterpret_cast<__m64*>(to + j * column_step), low);
    _mm_storeh_pi(reinterpret_cast<__m64*>(to + (j + 1) * column_step), low);
    _mm_storel_pi(reinterpret_cast<__m64*>(to + (j + 2) * column_step), high);
    _mm_storeh_pi(reinterpret_cast<__m64*>(to + (j + 3) * column_step), high);
  }
}

template <int Rows>
void store_turned(const float* rows, float* to, std::int64_t column_step) {
  int r = 0;
  for (; r + 4 <= Rows; r += 4) store_four_turned(rows + r * kTileColumns, to + r, column_step);
  for (; r + 2 <= Rows; r += 2) store_two_turned(rows + r * kTileColumns, to + r, column_step);
}

// Rows is a constant and its loops are unrolled so that the sums stay in registers.
template <int Rows>
void multiply_tile(const TileRow& row, const float* panel, float* to, std::int64_t columns) {
  const bool whole = columns == kTileColumns && row.to_column_step == 1;
  if (whole) {
    // For writing: another worker may have read these lines last.
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      __builtin_prefetch(to + r * row.to_row_step, 1);
      __builtin_prefetch(to + r * row.to_row_step + kTileColumns - 1, 1);
    }
  }
  float spilled[Rows][kTileColumns];
  Vector sums[Rows][2];
  if (!row.add) {
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) sums[r][0] = sums[r][1] = zero();
  } else if (whole) {
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      sums[r][0] = load_anywhere(to + r * row.to_row_step);
      sums[r][1] = load_anywhere(to + r * row.to_row_step + kLanes);
    }
  } else {
    for (int r = 0; r < Rows; ++r) {
      for (std::int64_t j = 0; j < kTileColumns; ++j)
        spilled[r][j] = j < columns ? to[r * row.to_row_step + j * row.to_column_step] : 0.0F;
    }
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      sums[r][0] = load_anywhere(spilled[r]);
      sums[r][1] = load_anywhere(spilled[r] + kLanes);
    }
  }
  const float* left = row.left;
  for (std::int64_t k = 0; k < row.depth; ++k) {
    const Vector right_low = load(panel), right_high = load(panel + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const Vector x = spread(left + r * row.row_step);
      sums[r][0] = multiply_add(x, right_low, sums[r][0]);
      sums[r][1] = multiply_add(x, right_high, sums[r][1]);
    }
    left += row.k_step;
    panel += kTileColumns;
  }
  if (whole) {
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      store(to + r * row.to_row_step, sums[r][0]);
      store(to + r * row.to_row_step + kLanes, sums[r][1]);
    }
    return;
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    store(spilled[r], sums[r][0]);
    store(spilled[r] + kLanes, sums[r][1]);
  }
  if constexpr (Rows % 2 == 0) {
    if (columns == kTileColumns && row.to_row_step == 1)
      return store_turned<Rows>(spilled[0], to, row.to_column_step);
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    for (int r = 0; r < Rows; ++r) to[r * row.to_row_step + j * row.to_column_step] = spilled[r][j];
  }
}

template <int Rows>
void multiply_rows(const TileRow& row) {
  if constexpr (Rows > 1) {
    if (row.rows < Rows) return multiply_rows<Rows - 1>(row);
  }
  const float* panel = row.panels;
  const std::int64_t panel_rows = row.panel_rows == 0 ? row.depth : row.panel_rows;
  for (std::int64_t j = 0; j < row.columns; j += kTileColumns) {
    const std::int64_t left = row.columns - j;
    multiply_tile<Rows>(row, panel, row.to + j * row.to_column_step,
                        left < kTileColumns ? left : kTileColumns);
    panel += panel_rows * kTileColumns;
  }
}

}  // namespace

const TileKernel kTileKernel = {kTileRows, kTileColumns, multiply_rows<kTileRows>};

}  // namespace tandem::model::TANDEM_ISA
