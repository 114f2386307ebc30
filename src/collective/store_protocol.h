// What a StoreClient and a StoreServer say to each other. Integers are little-endian.
//
//   greeting, client    0  7  magic "TANDEMS"
//                       7  1  version
//                       8 16  XXH3-128 of the token
//   answer, server      0  1  Greeting
//   request, client     0  1  Operation
//                       1  1  0
//                       2  2  key bytes, at most kMaxKeyBytes
//                       4  4  value bytes, at most kMaxValueBytes; 0 for kGet
//                       8  4  sequence: counts the client's requests
//                      12     key, value
//   reply, server       0  1  Reply
//                       1  3  0
//                       4  4  value bytes; 0 for kSet
//                       8  4  sequence of the request
//                      12     value
//
// A kGet is answered when the key exists. The client's next request cancels one that still waits.
#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace tandem::collective::store {

inline constexpr std::string_view kMagic = "TANDEMS";
inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::size_t kTokenHashBytes = 16;
inline constexpr std::size_t kGreetingBytes = 8 + kTokenHashBytes;
inline constexpr std::size_t kHeaderBytes = 12;

inline constexpr std::size_t kMaxKeyBytes = 256;
inline constexpr std::size_t kMaxValueBytes = 64 * 1024;
inline constexpr std::size_t kMaxKeys = 65536;
inline constexpr std::size_t kMaxConnections = 4096;
// Of these, such as have not greeted yet.
inline constexpr std::size_t kMaxStrangers = 256;
inline constexpr std::chrono::seconds kGreetingTime{10};

enum class Greeting : std::uint8_t { kWelcome = 1, kWrongToken = 2, kOtherVersion = 3 };
// kClaim: sets a key that is not there yet.
enum class Operation : std::uint8_t { kSet = 1, kGet = 2, kClaim = 3 };
// kTaken comes with the value that is there.
enum class Reply : std::uint8_t { kDone = 1, kFull = 2, kTaken = 3 };

struct Header {
  std::uint8_t kind = 0;
  std::uint16_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  std::uint32_t sequence = 0;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;
using GreetingBytes = std::array<std::byte, kGreetingBytes>;

// Little-endian, whatever the machine.
template <typename Integer>
void put(std::byte* to, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    to[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename Integer>
Integer take(const std::byte* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return static_cast<Integer>(value);
}

inline HeaderBytes to_bytes(const Header& header) {
  HeaderBytes bytes{};
  bytes[0] = static_cast<std::byte>(header.kind);
  put(&bytes[2], header.key_bytes);
  put(&bytes[4], header.value_bytes);
  put(&bytes[8], header.sequence);
  return bytes;
}

// REQUIRES: kHeaderBytes at `bytes`.
inline Header to_header(const std::byte* bytes) {
  return {std::to_integer<std::uint8_t>(bytes[0]), take<std::uint16_t>(bytes + 2),
          take<std::uint32_t>(bytes + 4), take<std::uint32_t>(bytes + 8)};
}

inline GreetingBytes greeting_for(std::string_view token) {
  GreetingBytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  bytes[7] = static_cast<std::byte>(kVersion);
  const std::string hex = hash_hex(std::as_bytes(std::span(token)));
  for (std::size_t i = 0; i < kTokenHashBytes; ++i) {
    std::uint8_t value = 0;
    std::from_chars(&hex[2 * i], &hex[2 * i] + 2, value, 16);
    bytes[8 + i] = static_cast<std::byte>(value);
  }
  return bytes;
}

}  // namespace tandem::collective::store
