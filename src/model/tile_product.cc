#include "model/tile_product.h"

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "model/instruction_set.h"

namespace tandem::model {
namespace {

constexpr std::int64_t kPackedFloats = 1 << 16;  // 256 KiB: half of a usual second-level cache.
constexpr std::int64_t kDeepest = 1024;
constexpr std::int64_t kThin = 128;     // Rows of a usual batch.
constexpr std::int64_t kLine = 16;      // Floats of a cache line.
constexpr std::int64_t kLeftRows = 48;  // Packed at a time; whole tiles with either kernel.

const TileKernel* find_kernel() {
  switch (instruction_set()) {
    case InstructionSet::kAvx512:
      return &avx512::kTileKernel;
    case InstructionSet::kAvx2:
      return &avx2::kTileKernel;
    case InstructionSet::kPlain:
      break;
  }
  return nullptr;
}

struct Buffers {
  // With room for a last panel that is not full.
  alignas(64) std::array<float, kPackedFloats + 32 * kDeepest> right;
  alignas(64) std::array<float, kLeftRows * kDeepest> left;
};

Buffers& buffers() {
  thread_local const std::unique_ptr<Buffers> kept = std::make_unique<Buffers>();
  return *kept;
}

// Four columns of a panel from four rows of a matrix, `depth` deep. Rows that come next are asked
// for: each is too short for the processor to guess.
void transpose_four(const float* from, std::int64_t stride, std::int64_t depth, float* to,
                    std::int64_t to_stride) {
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    if (k % kLine == 0) {
      for (std::int64_t row = 8; row < 12; ++row)
        _mm_prefetch(from + row * stride + k, _MM_HINT_T0);
    }
    __m128 a = _mm_loadu_ps(from + k), b = _mm_loadu_ps(from + stride + k),
           c = _mm_loadu_ps(from + 2 * stride + k), d = _mm_loadu_ps(from + 3 * stride + k);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_store_ps(to + k * to_stride, a);
    _mm_store_ps(to + (k + 1) * to_stride, b);
    _mm_store_ps(to + (k + 2) * to_stride, c);
    _mm_store_ps(to + (k + 3) * to_stride, d);
  }
  for (; k < depth; ++k) {
    for (std::int64_t j = 0; j < 4; ++j) to[k * to_stride + j] = from[j * stride + k];
  }
}

// Sizes known to the compiler: calls to memcpy cost more than what they copy here. Later rows are
// asked for, as above.
template <std::int64_t Floats>
void copy_rows(const float* from, std::int64_t stride, std::int64_t rows, float* to) {
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t i = 0; i < Floats; i += kLine)
      _mm_prefetch(from + (k + 16) * stride + i, _MM_HINT_T0);
    std::memcpy(to + k * Floats, from + k * stride, Floats * 4);
  }
}

// A matrix of `floats` columns, row after row without gaps.
void copy_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t floats,
               float* to) {
  switch (floats) {
    case 16:
      return copy_rows<16>(from, stride, rows, to);
    case 32:
      return copy_rows<32>(from, stride, rows, to);
    default:
      TANDEM_CHECK(false);
  }
}

// One panel of the right side: `wide` columns of `width`, the rest zero.
void pack_panel(Matrix b, std::int64_t depth, std::int64_t wide, std::int64_t width, float* to) {
  if (wide < width) std::fill_n(to, depth * width, 0.0F);
  if (b.transpose == Transpose::kNo) {
    if (wide == width) return copy_rows(b.data, b.stride, depth, width, to);
    for (std::int64_t k = 0; k < depth; ++k)
      std::copy_n(b.data + k * b.stride, wide, to + k * width);
    return;
  }
  std::int64_t column = 0;
  for (; column + 4 <= wide; column += 4)
    transpose_four(b.data + column * b.stride, b.stride, depth, to + column, width);
  for (; column < wide; ++column) {
    for (std::int64_t k = 0; k < depth; ++k) to[k * width + column] = b.data[column * b.stride + k];
  }
}

// Sizes known to the compiler, as above. Row after row, so that each line is read once.
template <std::int64_t Height>
void pack_whole_panels(const float* from, std::int64_t stride, std::int64_t panels,
                       std::int64_t depth, float* to) {
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = 0; i < panels; ++i) {
      std::memcpy(to + (i * depth + k) * Height, from + k * stride + i * Height,
                  Height * sizeof(float));
    }
  }
}

// `rows` rows of a transposed left side from row `begin` on, k-major in panels of `height`.
void pack_left(Matrix a, std::int64_t begin, std::int64_t rows, std::int64_t depth,
               std::int64_t height, float* to) {
  const float* const from = a.data + begin;
  const std::int64_t panels = rows / height, left = rows % height;
  if (height == avx2::kTileKernel.rows) {
    pack_whole_panels<6>(from, a.stride, panels, depth, to);
  } else {
    TANDEM_CHECK(height == avx512::kTileKernel.rows);
    pack_whole_panels<12>(from, a.stride, panels, depth, to);
  }
  const std::int64_t done = panels * height;
  for (std::int64_t k = 0; k < depth; ++k)
    std::copy_n(from + done + k * a.stride, left, to + done * depth + k * height);
}

void multiply_packed(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c,
                     std::int64_t c_row_step, std::int64_t c_column_step, bool add) {
  const TileKernel& tiles = *tile_kernel();
  Buffers& packed = buffers();
  pack_right(b, k, n, tiles.columns, packed.right.data());
  const bool in_place = a.transpose == Transpose::kNo;
  for (std::int64_t block = 0; block < m; block += kLeftRows) {
    const std::int64_t rows = std::min(kLeftRows, m - block);
    if (!in_place) pack_left(a, block, rows, k, tiles.rows, packed.left.data());
    for (std::int64_t i = 0; i < rows; i += tiles.rows) {
      tiles.multiply(
          {.rows = std::min(tiles.rows, rows - i),
           .columns = n,
           .depth = k,
           .left = in_place ? a.data + (block + i) * a.stride : packed.left.data() + i * k,
           .row_step = in_place ? a.stride : 1,
           .k_step = in_place ? 1 : tiles.rows,
           .panels = packed.right.data(),
           .to = c + (block + i) * c_row_step,
           .to_row_step = c_row_step,
           .to_column_step = c_column_step,
           .add = add});
    }
  }
}

// One panel of the right side is packed and used up, while the next one is fetched, since its lines
// lie too far apart for the processor to guess.
void multiply_panel(std::int64_t m, std::int64_t k, Matrix a, const float* panel, Matrix next,
                    TileRow part) {
  const TileKernel& tiles = *tile_kernel();
  const std::int64_t blocks = (m + tiles.rows - 1) / tiles.rows;
  float* const to = part.to;
  for (std::int64_t block = 0; block < blocks; ++block) {
    if (next.data != nullptr) {
      for (std::int64_t row = k * block / blocks; row < k * (block + 1) / blocks; ++row)
        _mm_prefetch(next.data + row * next.stride, _MM_HINT_T1);
    }
    const std::int64_t i = block * tiles.rows;
    part.rows = std::min(tiles.rows, m - i);
    part.depth = k;
    part.left = a.data + i * a.stride;
    part.row_step = a.stride;
    part.k_step = 1;
    part.panels = panel;
    part.to = to + i * part.to_row_step;
    tiles.multiply(part);
  }
}

// For a right side that is too large to be packed at once but is met by few rows.
void multiply_by_panels(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b,
                        float* c, std::int64_t c_stride, bool add) {
  constexpr std::int64_t kDepth = 256;  // A panel of it fills half of the first-level cache.
  const std::int64_t width = tile_kernel()->columns;
  float* const panel = buffers().right.data();
  for (std::int64_t from = 0; from < k; from += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - from);
    for (std::int64_t j = 0; j < n; j += width) {
      const std::int64_t wide = std::min(width, n - j);
      const float* const right = b.data + from * b.stride + j;
      pack_panel({right, b.stride}, depth, wide, width, panel);
      multiply_panel(m, depth, {a.data + from, a.stride}, panel,
                     {j + wide < n ? right + wide : nullptr, b.stride},
                     {.columns = wide,
                      .to = c + j,
                      .to_row_step = c_stride,
                      .to_column_step = 1,
                      .add = add || from > 0});
    }
  }
}

// Whether the buffers hold what has to be packed, and it pays.
bool tiles_can_multiply(std::int64_t m, std::int64_t n, std::int64_t k, Transpose a, Transpose b) {
  constexpr std::int64_t kSmall = 1 << 20, kTall = 1024, kFew = 24, kDeep = 256;
  if (tile_kernel() == nullptr || m * n * k <= kSmall || k > kDeepest) return false;
  if (a == Transpose::kYes) return b == Transpose::kNo && k <= kThin && k * n <= kPackedFloats;
  if (b == Transpose::kYes) return k * std::min(m, n) <= kPackedFloats;
  if (m <= kThin) return m >= kFew && k >= kDeep;
  return m >= kTall && k * n <= kPackedFloats;
}

}  // namespace

const TileKernel* tile_kernel() {
  static const TileKernel* const found = find_kernel();
  return found;
}

void pack_right(Matrix b, std::int64_t depth, std::int64_t columns, std::int64_t width, float* to) {
  const std::int64_t step = b.transpose == Transpose::kYes ? b.stride : 1;
  for (std::int64_t j = 0; j < columns; j += width) {
    pack_panel({b.data + j * step, b.stride, b.transpose}, depth, std::min(width, columns - j),
               width, to + j * depth);
  }
}

// Measured with one thread against the faster of oneDNN and OpenBLAS. With AVX2 we gain up to 11 %
// on thin batches and 3 to 7 % on the others; with AVX-512 oneDNN does, by 1 to 23 %, wherever the
// right side need not be turned.
bool prefers_tiles(std::int64_t m, std::int64_t n, std::int64_t k, Transpose a, Transpose b) {
  if (b == Transpose::kNo && tile_kernel() == &avx512::kTileKernel) return false;
  return tiles_can_multiply(m, n, k, a, b);
}

void multiply_tiles(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c,
                    std::int64_t c_stride, bool add) {
  TANDEM_CHECK(tiles_can_multiply(m, n, k, a.transpose, b.transpose));
  // Weights are read where they lie, and the batch is packed: c' = b' a'.
  if (a.transpose == Transpose::kNo && b.transpose == Transpose::kNo && m <= kThin) {
    multiply_by_panels(m, n, k, a, b, c, c_stride, add);
  } else if (a.transpose == Transpose::kNo && b.transpose == Transpose::kYes && m < n) {
    multiply_packed(n, m, k, {b.data, b.stride}, {a.data, a.stride, Transpose::kYes}, c, 1,
                    c_stride, add);
  } else {
    multiply_packed(m, n, k, a, b, c, c_stride, 1, add);
  }
}

}  // namespace tandem::model
