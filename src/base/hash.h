// XXH3-128, the one hash of Tandem: weights_hash, manifests, file checksums. Not a defence against
// forgery.
#pragma once

#include <cstddef>
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

// 32 lower-case hex digits.
std::string hash_hex(std::span<const std::byte> bytes);

}  // namespace tandem
