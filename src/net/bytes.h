// Little-endian integers in memory. Plain functions; used by net's formats only.
#pragma once

#include <cstddef>
#include <type_traits>

namespace tandem::net {

template <typename T>
void put(char* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<char>(value >> (8 * i));
}

template <typename T>
T take(const char* at) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    const auto byte = static_cast<T>(static_cast<unsigned char>(at[i]));
    value = static_cast<T>(value | static_cast<T>(byte << (8 * i)));
  }
  return value;
}

}  // namespace tandem::net
