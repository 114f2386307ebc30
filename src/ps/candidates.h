// The rows of a sparse table's map of candidates: keys that wait for admission have one word, how
// often they were touched. Private to ps/sparse_table.h; pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "ps/row_map.h"

namespace tandem::ps {

inline std::uint32_t touches_of(const Row& candidate) {
  return std::bit_cast<std::uint32_t>(*candidate.words());
}

inline void set_touches(const Row& candidate, std::uint32_t touches) {
  std::memcpy(candidate.words(), &touches, sizeof touches);
}

}  // namespace tandem::ps
