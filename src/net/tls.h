// The certificates with which this side proves itself inside TLS 1.3, and the authority that must
// have signed those of its peers. Read once and shared by all connections of a Listener, a Link, or
// a parameter server and its workers. The names in certificates are not compared with those of
// hosts: the secret decides who belongs to the cluster. For any thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/secret.h"

// OpenSSL's SSL_CTX and SSL.
struct ssl_ctx_st;
struct ssl_st;

namespace tandem::net {

class Tls {
 public:
  explicit Tls(ssl_ctx_st* context) : context_(context) {}
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // What OpenSSL keeps of a new connection, for the caller to free. Throws std::bad_alloc.
  ssl_st* begin() const;

 private:
  ssl_ctx_st* const context_;
};

// Null when there are no files. kInvalidArgument when there are some and not all, or when one
// cannot be used.
Result<std::shared_ptr<Tls>> load_tls(const TlsFiles& files);

// What OpenSSL's error means between two that speak TLS, and what to do about it.
std::string explain_tls(unsigned long error, const ssl_st* connection);

// Why OpenSSL's last call on this thread failed.
std::string tls_failure();

}  // namespace tandem::net
