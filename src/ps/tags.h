// The 16 bytes at the head of a bucket of ps/row_map.h: 15 tags, and a count of passers-by. All
// tags are compared at once. Pure functions on raw memory.
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
  Matches(const std::byte* bucket, std::uint8_t tag) : slots_(equal(bucket, tag) & 0x7fff) {}

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

inline std::uint8_t& passed_by(std::byte* bucket) {
  return *reinterpret_cast<std::uint8_t*>(bucket + 15);
}

}  // namespace tandem::ps
