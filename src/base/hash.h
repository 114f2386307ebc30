// XXH3, the one hash of Tandem; of 128 bits: weights_hash, manifests, file checksums. Not a defence
// against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tandem {

// Hashes bytes as they come. Thread-compatible.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  // 32 lower-case hex digits of all that was added so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-64, where many short things are hashed to be summed up.
std::uint64_t hash64(std::span<const std::byte> bytes);

// 32 lower-case hex digits.
std::string hash_hex(std::span<const std::byte> bytes);

}  // namespace tandem
