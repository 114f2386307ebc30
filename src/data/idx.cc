#include "data/idx.h"

#include <fmt/format.h>

#include <optional>

namespace tandem::data {
namespace {

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kMostRank = 8;

std::uint8_t byte_at(std::string_view bytes, std::size_t offset) {
  return static_cast<std::uint8_t>(bytes[offset]);
}

std::optional<Element> element_of(std::uint8_t type) {
  switch (type) {
    case 0x08:
      return Element::kU8;
    case 0x09:
      return Element::kI8;
    case 0x0b:
      return Element::kI16;
    case 0x0c:
      return Element::kI32;
    case 0x0d:
      return Element::kF32;
    case 0x0e:
      return Element::kF64;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool is_idx(std::string_view bytes) {
  return bytes.size() >= kMagicBytes && bytes[0] == 0 && bytes[1] == 0 &&
         element_of(byte_at(bytes, 2));
}

Result<Array> parse_idx(std::string_view bytes) {
  if (!is_idx(bytes)) {
    return Error(Code::kCorrupt, "not an IDX file: it does not begin with 0, 0 and a known type");
  }
  const std::size_t rank = byte_at(bytes, 3);
  if (rank < 1 || rank > kMostRank) {
    return Error(
        Code::kCorrupt,
        fmt::format("the IDX header claims {} dimensions; 1 to {} are possible", rank, kMostRank));
  }
  const std::size_t header_bytes = kMagicBytes + 4 * rank;
  if (bytes.size() < header_bytes) {
    return Error(Code::kCorrupt,
                 fmt::format("the file is truncated: its {} bytes are less than an IDX header of "
                             "rank {}, {} bytes",
                             bytes.size(), rank, header_bytes));
  }
  Array array;
  array.element = *element_of(byte_at(bytes, 2));
  array.order = std::endian::big;
  for (std::size_t at = kMagicBytes; at < header_bytes; at += 4) {
    std::uint32_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i) extent = (extent << 8) | byte_at(bytes, at + i);
    array.shape.push_back(extent);
  }
  array.bytes = bytes.substr(header_bytes);
  TANDEM_TRY(check_payload(array.shape, array.element, array.bytes));
  return array;
}

}  // namespace tandem::data
