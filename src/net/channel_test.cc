#include "net/channel.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <string>

#include "net/proxy_testing.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

constexpr std::size_t kHandshakeBytes = 2 * kHelloBytes;  // Of each direction.

// A server and a client that are connected, through a proxy.
class ChannelTest : public testing::Test {
 protected:
  void connect(const Limits& limits = {}) {
    server_ = std::make_unique<Server>(*loop_, security_, limits);
    proxy_ = std::make_unique<Proxy>(*loop_, server_->port());
    client_ = std::make_unique<Client>(*loop_, proxy_->port(), security_, limits);
    ASSERT_TRUE(
        wait_until(*loop_, [&] { return client_->ups == 1 && server_->peers.size() == 1; }));
  }

  // A peer of the server by hand: its channel's state, and the socket and keys of its other end.
  Server::Peer& connect_raw(const Limits& limits = {}) {
    if (server_ == nullptr) server_ = std::make_unique<Server>(*loop_, security_, limits);
    const std::size_t before = server_->peers.size();
    socket_ = raw_connect(server_->port());
    keys_ = raw_handshake(*loop_, socket_, security_);
    EXPECT_TRUE(wait_until(*loop_, [&] { return server_->peers.size() > before; }));
    return *server_->peers.back();
  }

  void expect_closed(const Server::Peer& peer, Code code) {
    ASSERT_TRUE(wait_until(*loop_, [&] { return !peer.closed.empty(); }));
    EXPECT_EQ(peer.closed[0].code(), code) << peer.closed[0].message();
    loop_->run_for(5ms);
    EXPECT_EQ(peer.closed.size(), 1U);
  }

  const Security security_ = with_secret('s');
  const std::unique_ptr<Loop> loop_ = make_loop();
  std::unique_ptr<Server> server_;
  std::unique_ptr<Proxy> proxy_;
  std::unique_ptr<Client> client_;
  Descriptor socket_;
  Keys keys_{};
};

TEST_F(ChannelTest, CarriesMessagesOfAllSizesInOrderBothWays) {
  server_ = std::make_unique<Server>(*loop_, security_);
  client_ = std::make_unique<Client>(*loop_, server_->port(), security_);
  ASSERT_TRUE(wait_until(*loop_, [&] { return client_->ups == 1 && server_->peers.size() == 1; }));
  Server::Peer& peer = *server_->peers[0];
  std::vector<Message> sent;
  for (const std::size_t size : {0UL, 1UL, 39UL, 40UL, 65536UL, 262144UL, 1000000UL, 16777216UL})
    for (const char fill : {'a', 'b', 'c'})
      if (size < 16777216 || fill == 'a')
        sent.push_back({static_cast<std::uint16_t>(sent.size()), std::string(size, fill)});
  for (const Message& message : sent) {
    ASSERT_TRUE(client_->channel().send(message.kind, message.bytes).ok());
    ASSERT_TRUE(peer.channel->send(message.kind, message.bytes).ok());
  }
  ASSERT_TRUE(wait_until(*loop_, [&] {
    return client_->messages.size() == sent.size() && peer.messages.size() == sent.size();
  }));
  EXPECT_TRUE(client_->messages == sent);
  EXPECT_TRUE(peer.messages == sent);
  EXPECT_EQ(peer.channel->queued_bytes(), 0U);
  EXPECT_EQ(peer.channel->send(1, std::string(16777217, 'x')).error().code(),
            Code::kInvalidArgument);
}

TEST_F(ChannelTest, AFrameOfTwoToThe63BytesEndsOnlyItsOwnChannel) {
  connect();
  Server::Peer& other = *server_->peers[0];
  Server::Peer& peer = connect_raw();
  Frame frame = make_frame(1, "", 0);
  frame.header[15] = '\x80';  // The length's highest byte.
  const Digest code = Mac(keys_.sends).of(frame.tagged_header());
  std::memcpy(frame.header.data() + kTaggedHeaderBytes, code.data(), kTagBytes);
  raw_send(socket_, {frame.header.data(), frame.header.size()});
  expect_closed(peer, Code::kCorrupt);
  EXPECT_NE(peer.closed[0].message().find("9223372036854775808"), std::string::npos);
  ASSERT_TRUE(client_->channel().send(1, "still here").ok());
  EXPECT_TRUE(wait_until(*loop_, [&] { return other.messages.size() == 1; }));
}

TEST_F(ChannelTest, WhatAPeerClaimsToSendTakesNoMemory) {
  std::vector<Descriptor> sockets;
  const auto in_use = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  connect_raw();
  const std::size_t before = in_use();
  for (int i = 0; i < 20; ++i) {
    Server::Peer& peer = connect_raw();
    const std::string frame = raw_frame(keys_.sends, 1, std::string(16777216, 'x'), 0);
    raw_send(socket_, std::string_view(frame).substr(0, kHeaderBytes + 1));
    sockets.push_back(std::move(socket_));
    loop_->poll_once(5ms);
    EXPECT_TRUE(peer.closed.empty());
  }
  EXPECT_LT(in_use() - before, std::size_t{1} << 20);
}

TEST_F(ChannelTest, AFlippedBitAnywhereEndsIt) {
  // In each field of the header, and in the payload.
  for (const std::size_t offset : {0, 5, 6, 8, 16, 24, 39, 40, 44}) {
    SCOPED_TRACE(offset);
    connect();
    proxy_->filter([offset](std::string bytes) {
      if (bytes.size() > offset) bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
      return bytes;
    });
    ASSERT_TRUE(client_->channel().send(1, "hello").ok());
    Server::Peer& peer = *server_->peers[0];
    ASSERT_TRUE(wait_until(*loop_, [&] { return !peer.closed.empty(); }));
    EXPECT_TRUE(peer.messages.empty());
    EXPECT_TRUE(peer.closed[0].code() == Code::kCorrupt ||
                peer.closed[0].code() == Code::kVersionMismatch);
  }
}

TEST_F(ChannelTest, ARepeatedFrameEndsIt) {
  connect();
  ASSERT_TRUE(client_->channel().send(1, "pay once").ok());
  Server::Peer& peer = *server_->peers[0];
  ASSERT_TRUE(wait_until(*loop_, [&] { return peer.messages.size() == 1; }));
  proxy_->inject(proxy_->from_client().substr(kHandshakeBytes));
  expect_closed(peer, Code::kCorrupt);
  EXPECT_EQ(peer.messages.size(), 1U);
}

TEST_F(ChannelTest, AFrameRecordedOnAnotherConnectionEndsIt) {
  connect();
  ASSERT_TRUE(client_->channel().send(1, "pay once").ok());
  ASSERT_TRUE(wait_until(*loop_, [&] { return server_->peers[0]->messages.size() == 1; }));
  const std::string recorded = proxy_->from_client().substr(kHandshakeBytes);
  Server::Peer& peer = connect_raw();
  raw_send(socket_, recorded);
  expect_closed(peer, Code::kCorrupt);
  EXPECT_TRUE(peer.messages.empty());
}

TEST_F(ChannelTest, AFrameSentBackOrLeftOutEndsIt) {
  {
    Server::Peer& peer = connect_raw();
    ASSERT_TRUE(peer.channel->send(1, "echo").ok());
    raw_send(socket_, raw_receive(*loop_, socket_, kHeaderBytes + 4));
    expect_closed(peer, Code::kCorrupt);
  }
  Server::Peer& peer = connect_raw();
  raw_send(socket_, raw_frame(keys_.sends, 1, "zero", 0) + raw_frame(keys_.sends, 1, "two", 2));
  expect_closed(peer, Code::kCorrupt);
  EXPECT_EQ(peer.messages.size(), 1U);
}

TEST_F(ChannelTest, ReportsAPeerThatIsGone) {
  Server::Peer& peer = connect_raw();
  socket_.close();
  expect_closed(peer, Code::kPeerLost);
  EXPECT_EQ(peer.channel->send(1, "too late").error().code(), Code::kPeerLost);
}

TEST_F(ChannelTest, RefusesToQueueMoreThanItsLimitAndSaysWhenThereIsRoom) {
  Limits limits;
  limits.queue_bytes = std::size_t{1} << 20;
  limits.silence = 60s;
  Server::Peer& peer = connect_raw(limits);
  const std::string block(std::size_t{64} << 10, 'x');
  std::size_t sent = 0;
  Status status;
  // The kernel's buffers take some megabytes before anything is queued here.
  for (int calm = 0; calm < 3;) {
    while ((status = peer.channel->send(1, block)).ok()) ++sent;
    ASSERT_EQ(status.error().code(), Code::kOutOfSpace);
    EXPECT_LE(peer.channel->queued_bytes(), limits.queue_bytes);
    const std::size_t before = peer.channel->queued_bytes();
    loop_->run_for(20ms);
    calm = peer.channel->queued_bytes() == before ? calm + 1 : 0;
    ASSERT_LT(sent, 4096U);
  }
  EXPECT_GT(peer.channel->queued_bytes(), limits.queue_bytes - block.size() - kHeaderBytes);
  peer.drained = 0;
  raw_receive(*loop_, socket_, sent * (block.size() + kHeaderBytes));
  EXPECT_EQ(peer.drained, 1);
  EXPECT_EQ(peer.channel->queued_bytes(), 0U);
  EXPECT_TRUE(peer.channel->send(1, block).ok());
}

TEST_F(ChannelTest, APeerThatStandsStillIsGivenUp) {
  Limits limits;
  limits.heartbeat = 30ms;
  limits.silence = 150ms;
  // It keeps its connection and neither reads nor writes, like a process that was stopped.
  Server::Peer& peer = connect_raw(limits);
  const auto began = Loop::Clock::now();
  expect_closed(peer, Code::kTimeout);
  EXPECT_GE(Loop::Clock::now() - began, 100ms);
}

TEST_F(ChannelTest, BeatsKeepAnIdleChannelOpen) {
  Limits limits;
  limits.heartbeat = 30ms;
  limits.silence = 300ms;
  connect(limits);
  EXPECT_TRUE(wait_until(*loop_, [&] {
    return proxy_->from_client().size() > kHandshakeBytes + 15 * kHeaderBytes &&
           proxy_->from_server().size() > kHandshakeBytes + 15 * kHeaderBytes;
  }));
  EXPECT_TRUE(client_->downs.empty());
  EXPECT_TRUE(server_->peers[0]->closed.empty());
  EXPECT_TRUE(server_->peers[0]->messages.empty());
}

TEST_F(ChannelTest, SendsWhatIsQueuedBeforeItCloses) {
  server_ = std::make_unique<Server>(*loop_, security_);
  client_ = std::make_unique<Client>(*loop_, server_->port(), security_);
  ASSERT_TRUE(wait_until(*loop_, [&] { return client_->ups == 1 && server_->peers.size() == 1; }));
  Server::Peer& peer = *server_->peers[0];
  // The client talks on meanwhile: bytes that nobody reads must not cut off what it is told.
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(peer.channel->send(1, std::string(100000, 'x')).ok());
    ASSERT_TRUE(client_->channel().send(1, std::string(100000, 'x')).ok());
  }
  peer.channel->close(Closing::kWhenSent);
  EXPECT_EQ(peer.channel->send(1, "").error().code(), Code::kPeerLost);
  ASSERT_TRUE(wait_until(*loop_, [&] { return client_->messages.size() == 50; }));
  expect_closed(peer, Code::kCancelled);
  ASSERT_TRUE(wait_until(*loop_, [&] { return !client_->downs.empty(); }));
  EXPECT_EQ(client_->downs[0].code(), Code::kPeerLost);
}

TEST_F(ChannelTest, WaitsOnlySoLongForItsLastMessagesToBeTaken) {
  Limits limits;
  limits.silence = 100ms;
  limits.heartbeat = 10s;
  Server::Peer& peer = connect_raw(limits);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(peer.channel->send(1, std::string(100000, 'x')).ok());
  peer.channel->close(Closing::kWhenSent);
  expect_closed(peer, Code::kTimeout);
}

TEST_F(ChannelTest, MayBeDestroyedByItsOwnCallbacks) {
  std::unique_ptr<Channel> channel;
  int calls = 0;
  auto listener = Listener::create(*loop_, {"127.0.0.1", 0}, security_, {},
                                   {.on_channel = [&](std::unique_ptr<Channel> made) {
                                     channel = std::move(made);
                                     channel->start({.on_message =
                                                         [&](std::uint16_t, const std::string&) {
                                                           ++calls;
                                                           channel.reset();
                                                         },
                                                     .on_closed = [&](const Error&) { ++calls; }});
                                   }});
  ASSERT_TRUE(listener.ok());
  Client client(*loop_, (*listener)->port(), security_);
  ASSERT_TRUE(wait_until(*loop_, [&] { return client.ups == 1; }));
  ASSERT_TRUE(client.channel().send(1, "one").ok());
  ASSERT_TRUE(client.channel().send(1, "two").ok());
  ASSERT_TRUE(wait_until(*loop_, [&] { return !client.downs.empty(); }));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tandem::net
