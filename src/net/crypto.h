// What net/ needs of OpenSSL, and nothing else of it: random bytes, keys derived from keys,
// authentication codes. A Mac belongs to one thread; the functions are for any.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

struct evp_mac_ctx_st;

namespace tandem::net {

using Key = std::array<char, 32>;
using Digest = std::array<char, 32>;

Status fill_random(std::span<char> bytes);

// HKDF-SHA256 (RFC 5869).
Key derive_key(std::string_view secret, std::string_view salt, std::string_view purpose);

// Whether they are equal, in a time that depends on their size only.
bool same_bytes(std::string_view a, std::string_view b);

// HMAC-SHA256 with one key, for many messages.
class Mac {
 public:
  explicit Mac(const Key& key);

  // The code of the pieces' bytes in a row.
  Digest of(std::string_view first, std::string_view second = {});

 private:
  struct Free {
    void operator()(evp_mac_ctx_st* context) const;
  };
  std::unique_ptr<evp_mac_ctx_st, Free> context_;
};

}  // namespace tandem::net
