// TLS below the handshake of our own, with certificates made here.
#include <gtest/gtest.h>

#include <string>

#include "net/certificates_testing.h"
#include "net/proxy_testing.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

class TlsTest : public testing::Test {
 protected:
  Security security(const std::string& who, const std::string& authority, char secret = 's') {
    Security result = with_secret(secret);
    result.tls = certificates_.files(who, authority);
    return result;
  }

  const std::unique_ptr<Loop> loop_ = make_loop();
  const TestCertificates certificates_;
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
    for (const Error& told : {client.downs[0], server.refused[0]}) {
      EXPECT_EQ(told.code(), Code::kDenied) << told.message();
      EXPECT_NE(told.message().find("certificate"), std::string::npos) << told.message();
      EXPECT_NE(told.message().find("--tls-c"), std::string::npos) << told.message();
    }
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

TEST_F(TlsTest, TellsTheOneOfTwoThatUsesItAloneAndTheOther) {
  const Security with = security("node", "ours"), without = with_secret('s');
  for (const auto& [listens, connects] : {std::pair(with, without), std::pair(without, with)}) {
    Server server(*loop_, listens);
    Client client(*loop_, server.port(), connects);
    ASSERT_TRUE(
        wait_until(*loop_, [&] { return !client.downs.empty() && !server.refused.empty(); }));
    EXPECT_EQ(client.ups, 0);
    EXPECT_TRUE(server.peers.empty());
    for (const Error& told : {client.downs[0], server.refused[0]}) {
      EXPECT_EQ(told.code(), Code::kDenied) << told.message();
      EXPECT_NE(told.message().find("TLS"), std::string::npos) << told.message();
    }
    EXPECT_NE(client.downs[0].message().find("--tls-cert"), std::string::npos)
        << client.downs[0].message();
  }
}

TEST_F(TlsTest, NamesTheFileThatItCannotUse) {
  const auto failure = [&](const Security& security) {
    return Listener::create(*loop_, {"127.0.0.1", 0}, security, {}, {}).error();
  };
  Security partial = with_secret('s');
  partial.tls.cert_file = certificates_.directory() / "node.crt";
  EXPECT_EQ(failure(partial).code(), Code::kInvalidArgument);
  EXPECT_NE(failure(partial).message().find("all or none"), std::string::npos);
  Security missing = security("node", "ours");
  missing.tls.ca_file = certificates_.directory() / "absent.crt";
  EXPECT_NE(failure(missing).message().find("absent.crt"), std::string::npos);
  Security mixed = security("node", "ours");
  mixed.tls.key_file = certificates_.directory() / "stranger.key";
  EXPECT_NE(failure(mixed).message().find("stranger.key"), std::string::npos);
}

}  // namespace
}  // namespace tandem::net
