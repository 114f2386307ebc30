// For tests of TLS: two authorities, and a certificate that each has signed, in files that go with
// their owner.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "net/secret.h"

namespace tandem::net {

struct Identity {
  explicit Identity(const std::string& name, const Identity* authority = nullptr)
      : key(EVP_EC_gen("P-256")), certificate(X509_new()) {
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const Identity& issuer = authority != nullptr ? *authority : *this;
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer.certificate));
    X509_EXTENSION* const basic = X509V3_EXT_conf_nid(
        nullptr, nullptr, NID_basic_constraints, authority != nullptr ? "CA:FALSE" : "CA:TRUE");
    X509_add_ext(certificate, basic, -1);
    X509_EXTENSION_free(basic);
    EXPECT_GT(X509_sign(certificate, issuer.key, EVP_sha256()), 0);
  }
  ~Identity() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  EVP_PKEY* key;
  X509* certificate;
};

// "node" is signed by "ours", "stranger" by "theirs".
class TestCertificates {
 public:
  TestCertificates() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-tls-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    const Identity ours("Tandem test"), theirs("Another authority");
    write("ours", ours);
    write("theirs", theirs);
    write("node", Identity("node", &ours));
    write("stranger", Identity("stranger", &theirs));
  }
  ~TestCertificates() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  TlsFiles files(const std::string& who, const std::string& authority) const {
    return {.cert_file = directory_ / (who + ".crt"),
            .key_file = directory_ / (who + ".key"),
            .ca_file = directory_ / (authority + ".crt")};
  }

 private:
  void write(const std::string& name, const Identity& identity) const {
    FILE* file = std::fopen((directory_ / (name + ".crt")).c_str(), "w");
    EXPECT_EQ(PEM_write_X509(file, identity.certificate), 1);
    std::fclose(file);
    file = std::fopen((directory_ / (name + ".key")).c_str(), "w");
    EXPECT_EQ(PEM_write_PrivateKey(file, identity.key, nullptr, nullptr, 0, nullptr, nullptr), 1);
    std::fclose(file);
  }

  std::filesystem::path directory_;
};

}  // namespace tandem::net
