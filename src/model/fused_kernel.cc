// Compiled once for each instruction set (CMakeLists.txt).
#include "model/fused_kernel.h"

#include "model/native_vector.h"

namespace tandem::model::TANDEM_ISA {
namespace {

// Sixteen numbers in as many registers as they take, so that sums have one order on every set.
constexpr int kLanes = 16, kParts = kLanes / kVectorFloats;
using Whole [[gnu::vector_size(sizeof(Vector))]] = int;
using Bits [[gnu::vector_size(sizeof(Vector))]] = unsigned;

struct Lanes {
  Vector part[kParts];
};

template <typename F>
[[gnu::always_inline]] inline Lanes each(F f) {
  Lanes result;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) result.part[i] = f(i);
  return result;
}

[[gnu::always_inline]] inline Lanes all(float value) {
  return each([&](int) { return Vector{} + value; });
}
[[gnu::always_inline]] inline Lanes read(const float* from) {
  return each([&](int i) { return load_anywhere(from + i * kVectorFloats); });
}
[[gnu::always_inline]] inline void write(float* to, const Lanes& value) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) store(to + i * kVectorFloats, value.part[i]);
}
[[gnu::always_inline]] inline Lanes operator+(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.part[i] + b.part[i]; });
}
[[gnu::always_inline]] inline Lanes operator-(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.part[i] - b.part[i]; });
}
[[gnu::always_inline]] inline Lanes operator*(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.part[i] * b.part[i]; });
}
[[gnu::always_inline]] inline Lanes operator/(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.part[i] / b.part[i]; });
}
// a * b + c.
[[gnu::always_inline]] inline Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each([&](int i) { return multiply_add(a.part[i], b.part[i], c.part[i]); });
}
// b where one of them is NaN.
[[gnu::always_inline]] inline Lanes larger(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.part[i] > b.part[i] ? a.part[i] : b.part[i]; });
}
[[gnu::always_inline]] inline Lanes where_negative(const Lanes& of, const Lanes& a,
                                                   const Lanes& b) {
  return each([&](int i) { return of.part[i] < Vector{} ? a.part[i] : b.part[i]; });
}
// The first `count` of a, the rest of b.
[[gnu::always_inline]] inline Lanes first_of(int count, const Lanes& a, const Lanes& b) {
  constexpr int kPlaces[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return each([&](int i) {
    Whole place;
    __builtin_memcpy(&place, kPlaces + i * kVectorFloats, sizeof place);
    return place < count ? a.part[i] : b.part[i];
  });
}

// All lanes into one, by halves.
template <typename Combine>
[[gnu::always_inline]] inline float fold(const Lanes& of, Combine combine) {
  alignas(64) float lanes[kLanes];
  write(lanes, of);
  const auto quarter = [&](int i) { return _mm_load_ps(lanes + 4 * i); };
  const __m128 four = combine(combine(quarter(0), quarter(2)), combine(quarter(1), quarter(3)));
  const __m128 two = combine(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(combine(two, _mm_shuffle_ps(two, two, 1)));
}
[[gnu::always_inline]] inline float sum(const Lanes& of) {
  return fold(of, [](__m128 a, __m128 b) { return a + b; });
}
[[gnu::always_inline]] inline float largest(const Lanes& of) {
  return fold(of, [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
}

// Of numbers that are not positive: error below 2 units in the last place down to -87, and 0 below,
// since numbers that are smaller still are slow. NaN stays; of positive numbers it is any number.
[[gnu::always_inline]] inline Lanes exp_of_negative(const Lanes& x) {
  const Lanes round = all(12582912.0F);  // 1.5 * 2^23 leaves a whole number in the low bits.
  const Lanes least = all(-87.0F), bounded = larger(least, x);
  const Lanes shifted = fused(bounded, all(1.44269504088896341F), round);
  const Lanes whole = shifted - round;
  const Lanes rest = fused(whole, all(2.12194440e-4F), fused(whole, all(-0.693359375F), bounded));
  Lanes p = all(1.9875691500e-4F);
  p = fused(p, rest, all(1.3981999507e-3F));
  p = fused(p, rest, all(8.3334519073e-3F));
  p = fused(p, rest, all(4.1665795894e-2F));
  p = fused(p, rest, all(1.6666665459e-1F));
  p = fused(p, rest, all(5.0000001201e-1F));
  p = fused(p, rest, all(1.0F));
  p = fused(p, rest, all(1.0F));
  return each([&](int i) {
    const Bits exponent = (reinterpret_cast<Bits>(shifted.part[i]) + 127) << 23;
    const Vector power = p.part[i] * reinterpret_cast<Vector>(exponent);
    return x.part[i] < least.part[i] ? Vector{} : power;
  });
}

// A short row's blocks of lanes: how many there are is known to the compiler, which keeps them in
// registers. `kept` numbers of the last block count.
template <int kBlocks>
struct Short {
  static constexpr int blocks = kBlocks;
  int kept;

  Lanes get(const float* row, int block) const { return read(row + block * kLanes); }
  void put(float* row, int block, const Lanes& value) const { write(row + block * kLanes, value); }
  int end() const { return blocks * kLanes; }
};

// Any row's blocks. What follows its last number is neither read nor written.
struct Long {
  int blocks, kept;

  Lanes get(const float* row, int block) const {
    if (block < blocks - 1) return read(row + block * kLanes);
    float some[kLanes] = {};
    for (int lane = 0; lane < kept; ++lane) some[lane] = row[block * kLanes + lane];
    return read(some);
  }
  void put(float* row, int block, const Lanes& value) const {
    if (block < blocks - 1) return write(row + block * kLanes, value);
    float some[kLanes];
    write(some, value);
    for (int lane = 0; lane < kept; ++lane) row[block * kLanes + lane] = some[lane];
  }
  int end() const { return (blocks - 1) * kLanes + kept; }
};

template <typename Work>
[[gnu::always_inline]] inline auto with_blocks(std::int64_t length, std::int64_t columns,
                                               Work work) {
  const auto blocks = static_cast<int>((length + kLanes - 1) / kLanes);
  const auto kept = static_cast<int>(length) - (blocks - 1) * kLanes;
  if (blocks * kLanes <= columns) {
    switch (blocks) {
      case 1:
        return work(Short<1>{kept});
      case 2:
        return work(Short<2>{kept});
      case 3:
        return work(Short<3>{kept});
      case 4:
        return work(Short<4>{kept});
      default:
        break;
    }
  }
  return work(Long{blocks, kept});
}

// The last block's numbers that count; 0 in place of the others.
template <typename Blocks>
[[gnu::always_inline]] inline Lanes counted(const Blocks& in, int block, const Lanes& value) {
  return block < in.blocks - 1 ? value : first_of(in.kept, value, all(0));
}

void clear(float* row, std::int64_t begin, std::int64_t end) {
  for (; begin + kLanes <= end; begin += kLanes) write(row + begin, all(0));
  for (; begin < end; ++begin) row[begin] = 0;
}

float softmax_row(float* row, std::int64_t length, std::int64_t columns, float scale) {
  return with_blocks(length, columns, [=](const auto& in) {
    const Lanes first = all(*row);
    Lanes tops = first;
#pragma GCC unroll 4
    for (int i = 0; i < in.blocks; ++i) {
      const Lanes x = in.get(row, i);
      tops = larger(i < in.blocks - 1 ? x : first_of(in.kept, x, first), tops);
    }
    const Lanes top = all(largest(tops)), factor = all(scale);
    Lanes sums = all(0);
#pragma GCC unroll 4
    for (int i = 0; i < in.blocks; ++i) {
      const Lanes powers = counted(in, i, exp_of_negative((in.get(row, i) - top) * factor));
      in.put(row, i, powers);
      sums = sums + powers;
    }
    const float total = sum(sums);
    const Lanes inverse = all(1.0F / total);
#pragma GCC unroll 4
    for (int i = 0; i < in.blocks; ++i) in.put(row, i, in.get(row, i) * inverse);
    clear(row, in.end(), columns);
    return total;
  });
}

void softmax_row_backward(const float* p, float* dp, std::int64_t length, std::int64_t columns,
                          float scale) {
  with_blocks(length, columns, [=](const auto& in) {
    Lanes sums = all(0);
#pragma GCC unroll 4
    for (int i = 0; i < in.blocks; ++i)
      sums = fused(in.get(p, i), counted(in, i, in.get(dp, i)), sums);
    const Lanes dot = all(sum(sums)), factor = all(scale);
#pragma GCC unroll 4
    for (int i = 0; i < in.blocks; ++i)
      in.put(dp, i, counted(in, i, in.get(p, i) * (in.get(dp, i) - dot) * factor));
    clear(dp, in.end(), columns);
  });
}

// x becomes the slope of what y becomes. Abramowitz and Stegun 7.1.26: the tail of the complement,
// so that small shares keep their digits.
[[gnu::always_inline]] inline void gelu(Lanes& x, Lanes& y) {
  const Lanes minus = all(0) - x;
  const Lanes t =
      all(1.0F) / fused(where_negative(x, minus, x), all(0.3275911F * 0.70710678118F), all(1.0F));
  const Lanes bell = exp_of_negative(x * x * all(-0.5F));
  Lanes tail = all(0.5F * 1.061405429F);
  tail = fused(tail, t, all(0.5F * -1.453152027F));
  tail = fused(tail, t, all(0.5F * 1.421413741F));
  tail = fused(tail, t, all(0.5F * -0.284496736F));
  tail = fused(tail, t, all(0.5F * 0.254829592F));
  tail = tail * t * bell;
  const Lanes below = where_negative(x, tail, all(1.0F) - tail);
  y = x * below;
  x = fused(x * bell, all(0.3989422804F), below);  // 1 / sqrt(2 pi).
}

// `work` gets each block's place and access to it.
template <typename Work>
[[gnu::always_inline]] inline void for_each_block(std::int64_t count, Work work) {
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) work(i, Short<1>{kLanes});
  if (whole < count) work(whole, Long{1, static_cast<int>(count - whole)});
}

void gelu(const float* x, float* y, std::size_t count) {
  for_each_block(static_cast<std::int64_t>(count), [=](std::int64_t at, const auto& in) {
    Lanes value = in.get(x + at, 0), active;
    gelu(value, active);
    in.put(y + at, 0, active);
  });
}

void gelu_backward(const float* dy, const float* x, float* dx, std::size_t count) {
  for_each_block(static_cast<std::int64_t>(count), [=](std::int64_t at, const auto& in) {
    Lanes value = in.get(x + at, 0), active;
    gelu(value, active);
    in.put(dx + at, 0, in.get(dy + at, 0) * value);
  });
}

void gelu_of_biased(float* x, const float* bias, float* y, std::int64_t rows,
                    std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    for_each_block(columns, [=](std::int64_t at, const auto& in) {
      Lanes value = in.get(x + at, 0) + in.get(bias + at, 0), active;
      gelu(value, active);
      in.put(x + at, 0, value);
      in.put(y + at, 0, active);
    });
  }
}

constexpr float kNormEpsilon = 1e-5F;

// Rows of exactly eight blocks, gpt's, are known to the compiler.
template <typename Work>
[[gnu::always_inline]] inline void with_norm_blocks(std::int64_t columns, Work work) {
  if (columns == 8 * kLanes) return work(Short<8>{kLanes});
  const auto blocks = static_cast<int>((columns + kLanes - 1) / kLanes);
  work(Long{blocks, static_cast<int>(columns) - (blocks - 1) * kLanes});
}

void layer_norm(const float* x, const float* weight, const float* bias, float* y, float* mean,
                float* inverse, std::int64_t rows, std::int64_t columns) {
  const float share = 1.0F / static_cast<float>(columns);
  with_norm_blocks(columns, [=](const auto& in) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* const from = x + r * columns;
      float* const to = y + r * columns;
      Lanes sums = all(0), squares = all(0);
#pragma GCC unroll 8
      for (int i = 0; i < in.blocks; ++i) sums = sums + in.get(from, i);
      const Lanes mu = all(sum(sums) * share);
#pragma GCC unroll 8
      for (int i = 0; i < in.blocks; ++i) {
        const Lanes apart = counted(in, i, in.get(from, i) - mu);
        squares = fused(apart, apart, squares);
      }
      const float deviation = sum(squares) * share + kNormEpsilon;
      mean[r] = sum(sums) * share;
      inverse[r] = 1.0F / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(deviation)));
      const Lanes scale = all(inverse[r]);
#pragma GCC unroll 8
      for (int i = 0; i < in.blocks; ++i) {
        in.put(to, i, fused((in.get(from, i) - mu) * scale, in.get(weight, i), in.get(bias, i)));
      }
    }
  });
}

void layer_norm_backward(const float* dy, const float* x, const float* weight, const float* mean,
                         const float* inverse, float* dx, float* weight_gradient,
                         float* bias_gradient, std::int64_t rows, std::int64_t columns, Write how) {
  const float share = 1.0F / static_cast<float>(columns);
  with_norm_blocks(columns, [=](const auto& in) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* const from = x + r * columns;
      const float* const up = dy + r * columns;
      float* const down = dx + r * columns;
      const Lanes mu = all(mean[r]), scale = all(inverse[r]);
      Lanes sums = all(0), dots = all(0);
#pragma GCC unroll 8
      for (int i = 0; i < in.blocks; ++i) {
        const Lanes weighted = in.get(up, i) * in.get(weight, i);
        sums = sums + weighted;
        dots = fused(weighted, (in.get(from, i) - mu) * scale, dots);
      }
      const Lanes sum_share = all(sum(sums) * share), dot_share = all(sum(dots) * share);
#pragma GCC unroll 8
      for (int i = 0; i < in.blocks; ++i) {
        const Lanes normal = (in.get(from, i) - mu) * scale, gradient = in.get(up, i);
        const Lanes rest = gradient * in.get(weight, i) - sum_share - normal * dot_share;
        in.put(weight_gradient, i, fused(gradient, normal, in.get(weight_gradient, i)));
        in.put(bias_gradient, i, in.get(bias_gradient, i) + gradient);
        in.put(down, i, fused(rest, scale, how == Write::kAdd ? in.get(down, i) : all(0)));
      }
    }
  });
}

}  // namespace

const FusedKernel kFusedKernel = {softmax_row,        softmax_row_backward, gelu,
                                  gelu_backward,      gelu_of_biased,       layer_norm,
                                  layer_norm_backward};

}  // namespace tandem::model::TANDEM_ISA
