#include "base/hash.h"

#include <fmt/format.h>
#if defined(__x86_64__)
// The same functions for the widest vectors that the processor has, with the same results.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "base/check.h"

namespace tandem {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  TANDEM_CHECK(state_->xxh != nullptr);
  TANDEM_CHECK(XXH3_128bits_reset(state_->xxh) == XXH_OK);
}

Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  TANDEM_CHECK(XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

std::string Hasher::hex() const {
  return to_hex(XXH3_128bits_digest(state_->xxh));
}

std::uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash_hex(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace tandem
