#include "net/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <limits>

namespace tandem::net {
namespace {

char kSha256[] = "SHA256";  // OSSL_PARAM wants it writable, and does not write.

unsigned char* raw(char* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

OSSL_PARAM octets(const char* name, std::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

// Looking an algorithm up takes longer than using it, so it is done once.
EVP_MAC* hmac() {
  static EVP_MAC* const algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  return algorithm;
}

}  // namespace

Status fill_random(std::span<char> bytes) {
  TANDEM_CHECK(bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  if (RAND_bytes(raw(bytes.data()), static_cast<int>(bytes.size())) != 1)
    return Error(Code::kInternal, "OpenSSL has no random bytes");
  return {};
}

Key derive_key(std::string_view secret, std::string_view salt, std::string_view purpose) {
  static EVP_KDF* const algorithm = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(algorithm);
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, kSha256, 0),
      octets(OSSL_KDF_PARAM_KEY, secret),
      octets(OSSL_KDF_PARAM_SALT, salt),
      octets(OSSL_KDF_PARAM_INFO, purpose),
      OSSL_PARAM_construct_end(),
  };
  Key key{};
  const int derived = EVP_KDF_derive(context, raw(key.data()), key.size(), parameters);
  EVP_KDF_CTX_free(context);
  // A key of zeros must never be used, so there is no way on.
  TANDEM_CHECK(derived == 1);
  return key;
}

bool same_bytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Mac::Mac(const Key& key) : context_(EVP_MAC_CTX_new(hmac())) {
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, kSha256, 0),
      OSSL_PARAM_construct_end(),
  };
  TANDEM_CHECK(EVP_MAC_init(context_.get(), raw(std::string_view(key.data(), key.size())),
                            key.size(), parameters) == 1);
}

Digest Mac::of(std::string_view first, std::string_view second) {
  Digest digest{};
  std::size_t size = 0;
  // Without a key, init starts anew with the one that it has.
  TANDEM_CHECK(EVP_MAC_init(context_.get(), nullptr, 0, nullptr) == 1);
  TANDEM_CHECK(EVP_MAC_update(context_.get(), raw(first), first.size()) == 1);
  TANDEM_CHECK(EVP_MAC_update(context_.get(), raw(second), second.size()) == 1);
  TANDEM_CHECK(EVP_MAC_final(context_.get(), raw(digest.data()), &size, digest.size()) == 1);
  TANDEM_CHECK(size == digest.size());
  return digest;
}

void Mac::Free::operator()(evp_mac_ctx_st* context) const {
  EVP_MAC_CTX_free(context);
}

}  // namespace tandem::net
