#include "ps/message.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace tandem::ps {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they are");

constexpr std::uint32_t kMagic = 0x53504454;  // "TDPS" when written little-endian.

template <typename T>
void put(HeaderBytes& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename T>
T take(std::span<const std::byte, kHeaderBytes> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

HeaderBytes encode(const Header& header) {
  HeaderBytes bytes{};
  put(bytes, 0, kMagic);
  put(bytes, 4, kMessageVersion);
  put(bytes, 5, static_cast<std::uint8_t>(header.kind));
  put(bytes, 6, header.code);
  put(bytes, 8, header.slot);
  put(bytes, 16, header.step);
  put(bytes, 24, header.place);
  put(bytes, 32, header.bytes);
  put(bytes, 40, header.offset);
  put(bytes, 48, header.number);
  put(bytes, 56, header.sequence);
  return bytes;
}

Result<Header> parse(std::span<const std::byte, kHeaderBytes> bytes) {
  if (take<std::uint32_t>(bytes, 0) != kMagic)
    return Error(Code::kCorrupt, "what came is no message of a parameter server or its worker");
  if (const auto version = take<std::uint8_t>(bytes, 4); version != kMessageVersion) {
    return Error(Code::kVersionMismatch,
                 fmt::format("the peer speaks version {} of the parameter servers' messages, this "
                             "program version {}; use binaries of one build",
                             version, kMessageVersion));
  }
  const auto kind = take<std::uint8_t>(bytes, 5);
  if (kind == 0 || kind > kLastKind || take<std::uint32_t>(bytes, 12) != 0)
    return Error(Code::kCorrupt, fmt::format("there is no message of kind {}", kind));
  Header header;
  header.kind = static_cast<Kind>(kind);
  header.code = take<std::uint16_t>(bytes, 6);
  header.slot = take<std::uint32_t>(bytes, 8);
  header.step = take<std::int64_t>(bytes, 16);
  header.place = take<std::uint64_t>(bytes, 24);
  header.bytes = take<std::uint64_t>(bytes, 32);
  header.offset = take<std::uint64_t>(bytes, 40);
  header.number = take<double>(bytes, 48);
  header.sequence = take<std::uint64_t>(bytes, 56);
  if (header.bytes > kMostPayload) {
    return Error(Code::kCorrupt, fmt::format("a message claims {} bytes, where {} are the most",
                                             header.bytes, kMostPayload));
  }
  return header;
}

std::span<const float> floats_of(std::span<const std::byte> payload) {
  TANDEM_CHECK(payload.size() % sizeof(float) == 0 &&
               reinterpret_cast<std::uintptr_t>(payload.data()) % alignof(float) == 0);
  return {reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)};
}

std::span<const std::byte> bytes_of(std::span<const float> floats) {
  return std::as_bytes(floats);
}

}  // namespace tandem::ps
