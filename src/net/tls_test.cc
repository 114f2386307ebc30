// TLS below the handshake of our own, with certificates made here.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "net/proxy_testing.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

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

class TlsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-tls-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    const Identity ours("Tandem test"), theirs("Another authority");
    write("ours", ours);
    write("theirs", theirs);
    write("node", Identity("node", &ours));
    write("stranger", Identity("stranger", &theirs));
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const Identity& identity) {
    FILE* file = std::fopen((directory_ / (name + ".crt")).c_str(), "w");
    EXPECT_EQ(PEM_write_X509(file, identity.certificate), 1);
    std::fclose(file);
    file = std::fopen((directory_ / (name + ".key")).c_str(), "w");
    EXPECT_EQ(PEM_write_PrivateKey(file, identity.key, nullptr, nullptr, 0, nullptr, nullptr), 1);
    std::fclose(file);
  }

  Security security(const std::string& who, const std::string& authority, char secret = 's') {
    Security result = with_secret(secret);
    result.cert_file = directory_ / (who + ".crt");
    result.key_file = directory_ / (who + ".key");
    result.ca_file = directory_ / (authority + ".crt");
    return result;
  }

  const std::unique_ptr<Loop> loop_ = make_loop();
  std::filesystem::path directory_;
};

TEST_F(TlsTest, CarriesMessagesThatNobodyBetweenCanRead) {
  Server server(*loop_, security("node", "ours"));
  Proxy proxy(*loop_, server.port());
  Client client(*loop_, proxy.port(), security("node", "ours"));
  ASSERT_TRUE(wait_until(*loop_, [&] { return client.ups == 1 && server.peers.size() == 1; }));
  ASSERT_TRUE(client.channel().send(1, "in confidence").ok());
  ASSERT_TRUE(wait_until(*loop_, [&] { return server.peers[0]->messages.size() == 1; }));
  EXPECT_EQ(server.peers[0]->messages[0], (Message{1, "in confidence"}));
  EXPECT_EQ(proxy.from_client().find("in confidence"), std::string::npos);
  EXPECT_EQ(proxy.from_client().find("TDN"), std::string::npos);
}

TEST_F(TlsTest, CarriesLargeMessagesBothWays) {
  Server server(*loop_, security("node", "ours"));
  Client client(*loop_, server.port(), security("node", "ours"));
  ASSERT_TRUE(wait_until(*loop_, [&] { return client.ups == 1 && server.peers.size() == 1; }));
  const std::string large(std::size_t{16} << 20, 'x');
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.channel().send(1, large).ok());
    ASSERT_TRUE(client.channel().send(2, "").ok());
    ASSERT_TRUE(server.peers[0]->channel->send(1, large).ok());
  }
  ASSERT_TRUE(wait_until(*loop_, [&] {
    return client.messages.size() == 2 && server.peers[0]->messages.size() == 4;
  }));
  EXPECT_TRUE(client.messages[1].bytes == large);
  EXPECT_TRUE(server.peers[0]->messages[2].bytes == large);
}

TEST_F(TlsTest, RefusesACertificateOfAnotherAuthority) {
  Server server(*loop_, security("node", "ours"));
  // One whom the server does not know, and one who does not know the server.
  for (const Security& wrong : {security("stranger", "ours"), security("node", "theirs")}) {
    server.refused.clear();
    Client client(*loop_, server.port(), wrong);
    ASSERT_TRUE(
        wait_until(*loop_, [&] { return !client.downs.empty() && !server.refused.empty(); }));
    EXPECT_EQ(client.ups, 0);
    EXPECT_TRUE(client.downs[0].code() == Code::kDenied ||
                client.downs[0].code() == Code::kPeerLost)
        << client.downs[0].message();
    EXPECT_EQ(server.refused[0].code(), Code::kDenied) << server.refused[0].message();
  }
  EXPECT_TRUE(server.peers.empty());
}

TEST_F(TlsTest, DoesNotReplaceTheSecret) {
  Server server(*loop_, security("node", "ours"));
  Client client(*loop_, server.port(), security("node", "ours", 'x'));
  ASSERT_TRUE(wait_until(*loop_, [&] { return !client.downs.empty() && !server.refused.empty(); }));
  EXPECT_EQ(client.downs[0].code(), Code::kDenied);
  EXPECT_NE(client.downs[0].message().find("secret"), std::string::npos);
  EXPECT_TRUE(server.peers.empty());
}

TEST_F(TlsTest, RefusesWhoSpeaksInTheClear) {
  Server server(*loop_, security("node", "ours"));
  Client client(*loop_, server.port(), with_secret('s'));
  ASSERT_TRUE(wait_until(*loop_, [&] { return !client.downs.empty() && !server.refused.empty(); }));
  EXPECT_EQ(client.ups, 0);
  EXPECT_TRUE(server.peers.empty());
}

TEST_F(TlsTest, NamesTheFileThatItCannotUse) {
  const auto failure = [&](const Security& security) {
    return Listener::create(*loop_, {"127.0.0.1", 0}, security, {}, {}).error();
  };
  Security partial = with_secret('s');
  partial.cert_file = directory_ / "node.crt";
  EXPECT_EQ(failure(partial).code(), Code::kInvalidArgument);
  EXPECT_NE(failure(partial).message().find("all or none"), std::string::npos);
  Security missing = security("node", "ours");
  missing.ca_file = directory_ / "absent.crt";
  EXPECT_NE(failure(missing).message().find("absent.crt"), std::string::npos);
  Security mixed = security("node", "ours");
  mixed.key_file = directory_ / "stranger.key";
  EXPECT_NE(failure(mixed).message().find("stranger.key"), std::string::npos);
}

}  // namespace
}  // namespace tandem::net
