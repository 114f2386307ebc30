#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/rng.h"

namespace tandem::data {
namespace {

// A network over very few bits reaches only few orders, so small sizes walk in a domain of 2^8
// instead.
constexpr int kLeastBits = 8;

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t key)
    : size_(static_cast<std::uint64_t>(size)) {
  TANDEM_CHECK(size >= 1 && size <= (std::int64_t{1} << 31));
  const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(size_ - 1)));
  low_bits_ = bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  const Rng rng({key});
  for (std::size_t round = 0; round < keys_.size(); ++round) keys_[round] = rng.at(round);
}

std::uint64_t Permutation::scramble(std::uint64_t value) const {
  std::uint64_t low = value & low_mask_;
  std::uint64_t high = value >> low_bits_;
  for (std::size_t round = 0; round < keys_.size(); round += 2) {
    high ^= mix64(keys_[round] + low) & high_mask_;
    low ^= mix64(keys_[round + 1] + high) & low_mask_;
  }
  return (high << low_bits_) | low;
}

std::uint32_t Permutation::operator()(std::uint32_t index) const {
  std::uint64_t value = index;
  do {
    value = scramble(value);
  } while (value >= size_);
  return static_cast<std::uint32_t>(value);
}

}  // namespace tandem::data
