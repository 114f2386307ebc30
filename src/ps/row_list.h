// A list of rows as it travels: for each row how many were left out since the one before, as a
// number of 7 bits a byte, the lowest first, with the highest bit set in all bytes but the last. So
// a list is ascending and has each row once, whatever the bytes are, and most rows take one byte.
// docs/wire-format.md says the same. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "ps/tables.h"

namespace tandem::ps {

// Bytes that a row takes at most.
inline constexpr std::size_t kMostRowBytes = 5;

// Rows [first, last) of a list; what was before them is needed to read them.
std::string encode_rows(std::span<const std::uint32_t> list, std::size_t first, std::size_t last);

// Reads rows behind those that `list` has, until it has at most `most`. kInvalidArgument when the
// bytes are none; the list is then unspecified.
Status decode_rows(std::span<const std::byte> bytes, std::size_t most, RowList& list);

}  // namespace tandem::ps
