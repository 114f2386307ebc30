// The tags at the head of a bucket of ps/row_map.h, of which all are compared at once. Pure, on raw
// memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tandem::ps {

// The slots of a bucket that have a tag, lowest first.
class Matches {
 public:
  // `slots` has a bit for each slot that the bucket has. REQUIRES: 16 bytes can be read.
  Matches(const std::byte* bucket, std::uint8_t tag, std::uint32_t slots)
      : slots_(equal(bucket, tag) & slots) {}

  bool any() const { return slots_ != 0; }
  // REQUIRES, here and below: any().
  std::size_t first() const { return static_cast<std::size_t>(std::countr_zero(slots_)); }
  void drop_first() { slots_ &= slots_ - 1; }

 private:
  // A bit for each of the 16 bytes.
  static std::uint32_t equal(const std::byte* bytes, std::uint8_t tag) {
#if defined(__SSE2__)
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    return static_cast<std::uint32_t>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)))));
#else
    std::uint32_t slots = 0;
    for (std::size_t i = 0; i < 16; ++i) slots |= std::uint32_t{bytes[i] == std::byte{tag}} << i;
    return slots;
#endif
  }

  std::uint32_t slots_;
};

}  // namespace tandem::ps
