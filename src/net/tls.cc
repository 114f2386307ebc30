#include "net/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace tandem::net {

Tls::~Tls() {
  SSL_CTX_free(context_);
}

ssl_st* Tls::begin() const {
  SSL* const made = SSL_new(context_);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

namespace {

std::string text_of(unsigned long error) {
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* const reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("error {:x}", error);
}

}  // namespace

std::string explain_tls(unsigned long error, const ssl_st* connection) {
  switch (ERR_SYSTEM_ERROR(error) ? 0 : ERR_GET_REASON(error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return fmt::format(
          "the peer's certificate is not accepted here: {}; this side's --tls-ca must name the "
          "authority that signed it",
          X509_verify_cert_error_string(SSL_get_verify_result(connection)));
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "the peer has no certificate; give it --tls-cert, --tls-key and --tls-ca";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return fmt::format(
          "the peer does not accept this side's certificate ({}); --tls-cert must name one that is "
          "valid and signed by the authority of the peer's --tls-ca",
          text_of(error));
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return "the peer does not use it, or not version 1.3; give the machines of a cluster "
             "certificates (--tls-cert, --tls-key, --tls-ca), all or none of them";
    default:
      return text_of(error);
  }
}

std::string tls_failure() {
  // The first is the cause, what follows is who passed it on.
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  return text_of(error);
}

Result<std::shared_ptr<Tls>> load_tls(const TlsFiles& files) {
  const std::array all{&files.cert_file, &files.key_file, &files.ca_file};
  if (std::all_of(all.begin(), all.end(), [](auto* file) { return file->empty(); }))
    return std::shared_ptr<Tls>();
  if (std::any_of(all.begin(), all.end(), [](auto* file) { return file->empty(); })) {
    return Error(Code::kInvalidArgument,
                 "TLS needs three files: a certificate, its key and the authority that signed the "
                 "peers' certificates; give all or none");
  }
  ERR_clear_error();
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  if (context == nullptr)
    return Error(Code::kInternal, fmt::format("prepare TLS: {}", tls_failure()));
  auto tls = std::make_shared<Tls>(context);
  const auto failed = [](const std::filesystem::path& file) {
    return Error(Code::kInvalidArgument,
                 fmt::format("use `{}` for TLS: {}", file.string(), tls_failure()));
  };
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  if (SSL_CTX_use_certificate_chain_file(context, files.cert_file.c_str()) != 1)
    return failed(files.cert_file);
  if (SSL_CTX_use_PrivateKey_file(context, files.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return failed(files.key_file);
  if (SSL_CTX_load_verify_locations(context, files.ca_file.c_str(), nullptr) != 1)
    return failed(files.ca_file);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return tls;
}

}  // namespace tandem::net
