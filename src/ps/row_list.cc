#include "ps/row_list.h"

#include <fmt/format.h>

#include <limits>

namespace tandem::ps {

std::string encode_rows(std::span<const std::uint32_t> list, std::size_t first, std::size_t last) {
  std::string bytes;
  bytes.reserve(last - first);
  std::uint64_t next = first == 0 ? 0 : std::uint64_t{list[first - 1]} + 1;
  for (const std::uint32_t row : list.subspan(first, last - first)) {
    std::uint64_t left_out = row - next;
    for (; left_out >= 0x80; left_out >>= 7)
      bytes.push_back(static_cast<char>((left_out & 0x7f) | 0x80));
    bytes.push_back(static_cast<char>(left_out));
    next = std::uint64_t{row} + 1;
  }
  return bytes;
}

Status decode_rows(std::span<const std::byte> bytes, std::size_t most, RowList& list) {
  const auto wrong = [](const std::string& what) {
    return Error(Code::kInvalidArgument, "refused rows: a list " + what);
  };
  std::uint64_t next = list.empty() ? 0 : std::uint64_t{list.back()} + 1, left_out = 0;
  std::size_t length = 0;
  for (const std::byte byte : bytes) {
    if (length == kMostRowBytes) return wrong("with a number that is too long");
    left_out |= std::to_integer<std::uint64_t>(byte & std::byte{0x7f}) << (7 * length++);
    if ((byte & std::byte{0x80}) != std::byte{0}) continue;
    const std::uint64_t row = next + left_out;
    if (row > std::numeric_limits<std::uint32_t>::max() || list.size() >= most)
      return wrong(fmt::format("with row {}, or with more than {}", row, most));
    list.push_back(static_cast<std::uint32_t>(row));
    next = row + 1;
    left_out = length = 0;
  }
  if (length != 0) return wrong("that ends in the middle of a number");
  return {};
}

}  // namespace tandem::ps
