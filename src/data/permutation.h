// A pseudo-random order of 0 … n-1 of which any place can be computed by itself: a Feistel network
// over the smallest power of two that holds n, walked until it lands inside (Black and Rogaway's
// cycle walking). Less than two rounds of the network on average, no memory, no state: a plain
// value that threads may share.
#pragma once

#include <array>
#include <cstdint>

namespace tandem::data {

class Permutation {
 public:
  // Different keys give unrelated orders. REQUIRES: 1 <= size <= 2^31.
  Permutation(std::int64_t size, std::uint64_t key);

  // What stands at place `index`. REQUIRES: index < size.
  std::uint32_t operator()(std::uint32_t index) const;

 private:
  static constexpr int kRounds = 6;

  std::uint64_t scramble(std::uint64_t value) const;

  std::uint64_t size_;
  int low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace tandem::data
