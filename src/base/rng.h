// Random numbers that are pure functions of what names them: Rng(seed, stream, ...) gives the same
// sequence on every machine, thread and run. The generator is SplitMix64 over a key that mixes all
// the words; at(i) reaches any place of the sequence without replaying. Plain values; no shared
// state.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace tandem {

// A bijection of 64-bit words that looks random (the finaliser of SplitMix64).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class Rng {
 public:
  // Sequences named by different words are independent: Rng({seed, step, lane}).
  explicit constexpr Rng(std::initializer_list<std::uint64_t> words) {
    for (std::uint64_t word : words) key_ = mix64(key_ + kGolden + mix64(word + kGolden));
  }

  // The value at place `index` of the sequence.
  constexpr std::uint64_t at(std::uint64_t index) const {
    return mix64(key_ + (index + 1) * kGolden);
  }

  // The next value of the sequence.
  constexpr std::uint64_t next() { return at(position_++); }

  // Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1.0p-24F; }

  // Normal with mean 0 and deviation 1. Uses two values of the sequence.
  float normal();

  // Uniform in [0, bound). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  std::uint64_t key_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace tandem
