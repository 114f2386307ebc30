#include "net/handshake.h"

#include <gtest/gtest.h>

#include <string>

#include "net/proxy_testing.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

TEST(Handshake, LetsInWhoKnowsTheSecret) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  Client client(*loop, server.port(), with_secret('s'));
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 1 && server.peers.size() == 1; }));
  ASSERT_TRUE(client.channel().send(1, "from the client").ok());
  ASSERT_TRUE(server.peers[0]->channel->send(2, "from the server").ok());
  ASSERT_TRUE(wait_until(
      *loop, [&] { return !client.messages.empty() && !server.peers[0]->messages.empty(); }));
  EXPECT_EQ(server.peers[0]->messages[0], (Message{1, "from the client"}));
  EXPECT_EQ(client.messages[0], (Message{2, "from the server"}));
  EXPECT_TRUE(server.refused.empty());
}

TEST(Handshake, TellsBothSidesOfAWrongSecret) {
  for (const Security& wrong : {with_secret('x'), Security{}}) {
    const auto loop = make_loop();
    Server server(*loop, with_secret('s'));
    Client client(*loop, server.port(), wrong);
    ASSERT_TRUE(
        wait_until(*loop, [&] { return !client.downs.empty() && !server.refused.empty(); }));
    EXPECT_EQ(client.downs[0].code(), Code::kDenied);
    EXPECT_NE(client.downs[0].message().find("secret"), std::string::npos);
    EXPECT_EQ(server.refused[0].code(), Code::kDenied);
    EXPECT_EQ(client.ups, 0);
    EXPECT_TRUE(server.peers.empty());
  }
}

TEST(Handshake, WorksWithoutASecretOnThisHost) {
  const auto loop = make_loop();
  Server server(*loop, {});
  Client client(*loop, server.port(), {}, {}, "localhost");
  EXPECT_TRUE(wait_until(*loop, [&] { return client.ups == 1 && server.peers.size() == 1; }));
}

TEST(Handshake, TellsAClientOfAnotherVersion) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  const Descriptor socket = raw_connect(server.port());
  raw_send(socket, raw_hello('n', 9));
  const auto theirs = parse_hello(raw_receive(*loop, socket, kHelloBytes), Role::kListens);
  ASSERT_TRUE(theirs.ok());
  EXPECT_EQ(theirs->version, kVersion);
  const auto answer = parse_answer(raw_receive(*loop, socket, kHelloBytes));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->reason, Reason::kOtherVersion);
  EXPECT_EQ(raw_receive(*loop, socket, 1), "");
  ASSERT_EQ(server.refused.size(), 1U);
  EXPECT_EQ(server.refused[0].code(), Code::kVersionMismatch);
  EXPECT_NE(server.refused[0].message().find("version 9"), std::string::npos);
}

TEST(Handshake, EndsWithGarbageWithoutAWord) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\nHost: tandem\r\nAccept: */*\r\n\r\n"), std::string(40, '\0'),
        raw_hello('n', kVersion, Role::kListens), std::string(100000, '\xff')}) {
    const std::size_t before = server.refused.size();
    const Descriptor socket = raw_connect(server.port());
    raw_send(socket, garbage);
    EXPECT_EQ(raw_receive(*loop, socket, 1), "");
    ASSERT_TRUE(wait_until(*loop, [&] { return server.refused.size() > before; }));
    EXPECT_EQ(server.refused.back().code(), Code::kCorrupt);
  }
  EXPECT_TRUE(server.peers.empty());
}

TEST(Handshake, ProofsSentBackProveNothing) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  // Two connections: what the server says on one is said to it on the other.
  const Descriptor first = raw_connect(server.port()), second = raw_connect(server.port());
  raw_send(first, raw_hello('n'));
  const std::string hello = raw_receive(*loop, first, kHelloBytes);
  raw_send(second, hello);
  EXPECT_EQ(raw_receive(*loop, second, 1), "");
  // A proof of another handshake does not fit this one's nonces.
  const Descriptor third = raw_connect(server.port());
  const Keys keys = raw_handshake(*loop, third, with_secret('s'));
  EXPECT_NE(keys.sends, keys.receives);
  raw_send(first, raw_hello('n'));
  EXPECT_EQ(raw_receive(*loop, first, 1), "");
  EXPECT_EQ(server.refused.size(), 2U);
}

TEST(Handshake, ARecordedOneDoesNotOpenAnotherConnection) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  const std::string ours = raw_hello('n');
  const Descriptor first = raw_connect(server.port());
  raw_send(first, ours);
  const std::string theirs = raw_receive(*loop, first, kHelloBytes);
  const Key key = derive_key(with_secret('s').secret->view(), ours.substr(8) + theirs.substr(8),
                             "tandem proof connects");
  const HelloBytes proof = encode(Answer{Reason::kNone, Mac(key).of(ours, theirs)});
  const std::string recorded(proof.data(), proof.size());
  const Descriptor second = raw_connect(server.port());
  raw_send(second, ours);
  EXPECT_NE(raw_receive(*loop, second, kHelloBytes), theirs);
  raw_send(second, recorded);
  const auto answer = parse_answer(raw_receive(*loop, second, kHelloBytes));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->reason, Reason::kWrongSecret);
  // Where it belongs, it is good.
  raw_send(first, recorded);
  EXPECT_EQ(parse_answer(raw_receive(*loop, first, kHelloBytes))->reason, Reason::kNone);
}

TEST(Handshake, AClientDoesNotTrustAServerWithoutTheSecret) {
  const auto loop = make_loop();
  RawListener impostor;
  Client client(*loop, impostor.port(), with_secret('s'));
  const Descriptor peer = impostor.wait(*loop);
  raw_receive(*loop, peer, kHelloBytes);
  raw_send(peer, raw_hello('m', kVersion, Role::kListens));
  const std::string proof = raw_receive(*loop, peer, kHelloBytes);
  ASSERT_TRUE(is_answer(proof));
  raw_send(peer, proof);  // The best that it has: the client's own.
  ASSERT_TRUE(wait_until(*loop, [&] { return !client.downs.empty(); }));
  EXPECT_EQ(client.downs[0].code(), Code::kDenied);
  EXPECT_EQ(client.ups, 0);
}

TEST(Handshake, AClientTellsAServerOfAnotherVersion) {
  const auto loop = make_loop();
  RawListener impostor;
  Client client(*loop, impostor.port(), with_secret('s'));
  const Descriptor peer = impostor.wait(*loop);
  raw_receive(*loop, peer, kHelloBytes);
  raw_send(peer, raw_hello('m', 7, Role::kListens));
  EXPECT_EQ(parse_answer(raw_receive(*loop, peer, kHelloBytes))->reason, Reason::kOtherVersion);
  ASSERT_TRUE(wait_until(*loop, [&] { return !client.downs.empty(); }));
  EXPECT_EQ(client.downs[0].code(), Code::kVersionMismatch);
  EXPECT_NE(client.downs[0].message().find("version 7"), std::string::npos);
}

TEST(Handshake, AClientUnderstandsWhyItIsRefused) {
  const auto loop = make_loop();
  for (const auto& [reason, code] :
       {std::pair(Reason::kTooBusy, Code::kPeerLost), std::pair(Reason::kNone, Code::kCorrupt),
        std::pair(Reason::kOtherVersion, Code::kVersionMismatch)}) {
    RawListener impostor;
    Client client(*loop, impostor.port(), with_secret('s'));
    const Descriptor peer = impostor.wait(*loop);
    raw_receive(*loop, peer, kHelloBytes);
    const HelloBytes answer = encode(Answer{reason, {}});
    raw_send(peer, {answer.data(), answer.size()});
    ASSERT_TRUE(wait_until(*loop, [&] { return !client.downs.empty(); }));
    EXPECT_EQ(client.downs[0].code(), code);
  }
}

}  // namespace
}  // namespace tandem::net
