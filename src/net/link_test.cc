#include "net/link.h"

#include <gtest/gtest.h>

#include <string>

#include "net/proxy_testing.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

Limits fast() {
  Limits limits;
  limits.backoff_first = 10ms;
  limits.backoff_most = 100ms;
  return limits;
}

TEST(Link, ComesBackWhenItsListenerDoes) {
  const auto loop = make_loop();
  auto server = std::make_unique<Server>(*loop, with_secret('s'));
  const std::uint16_t port = server->port();
  Client client(*loop, port, with_secret('s'), fast());
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 1 && server->peers.size() == 1; }));
  server.reset();
  ASSERT_TRUE(wait_until(*loop, [&] { return client.downs.size() >= 3; }));
  EXPECT_EQ(client.downs[0].code(), Code::kPeerLost);
  EXPECT_EQ(client.link->channel(), nullptr);
  EXPECT_NE(client.downs[2].message().find("127.0.0.1:" + std::to_string(port)), std::string::npos);

  server = std::make_unique<Server>(*loop, with_secret('s'), Limits{}, port);
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 2 && server->peers.size() == 1; }));
  ASSERT_TRUE(client.channel().send(5, "again").ok());
  ASSERT_TRUE(wait_until(*loop, [&] { return server->peers[0]->messages.size() == 1; }));
  client.link.reset();
  ASSERT_TRUE(wait_until(*loop, [&] { return server->peers[0]->closed.size() == 1; }));
}

TEST(Link, TriesLessAndLessOften) {
  const auto loop = make_loop();
  std::uint16_t nobody = 0;
  { nobody = RawListener().port(); }
  Client client(*loop, nobody, with_secret('s'), fast());
  const auto began = Loop::Clock::now();
  ASSERT_TRUE(wait_until(*loop, [&] { return client.downs.size() == 7; }));
  // Pauses of 10, 20, 40, 80, 100 and 100 ms, each shortened by a quarter at most.
  EXPECT_GE(Loop::Clock::now() - began, 260ms);
  for (const Error& why : client.downs) EXPECT_EQ(why.code(), Code::kPeerLost);
}

TEST(Link, TriesAtTheSlowestPaceWithAWrongSecret) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  Limits limits = fast();
  limits.backoff_most = 200ms;
  Client client(*loop, server.port(), with_secret('x'), limits);
  ASSERT_TRUE(wait_until(*loop, [&] { return client.downs.size() == 1; }));
  const auto began = Loop::Clock::now();
  ASSERT_TRUE(wait_until(*loop, [&] { return client.downs.size() == 3; }));
  EXPECT_GE(Loop::Clock::now() - began, 300ms);
  for (const Error& why : client.downs) EXPECT_EQ(why.code(), Code::kDenied);
}

TEST(Link, GivesUpOnAListenerThatNeverAnswers) {
  const auto loop = make_loop();
  const RawListener deaf;
  Limits limits = fast();
  limits.handshake = 50ms;
  Client client(*loop, deaf.port(), with_secret('s'), limits);
  ASSERT_TRUE(wait_until(*loop, [&] { return client.downs.size() == 2; }));
  EXPECT_EQ(client.downs[0].code(), Code::kTimeout);
}

TEST(Link, GivesUpOnAHostThatNeverAnswers) {
  const auto loop = make_loop();
  // A full queue of connections: the kernel leaves further ones without an answer.
  const RawListener full(0);
  std::vector<Descriptor> others;
  for (int i = 0; i < 3; ++i) {
    Descriptor& other =
        others.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(full.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  Limits limits = fast();
  limits.handshake = 50ms;
  Client client(*loop, full.port(), with_secret('s'), limits);
  ASSERT_TRUE(wait_until(*loop, [&] { return client.downs.size() == 2; }));
  EXPECT_EQ(client.downs[0].code(), Code::kTimeout);
}

TEST(Link, NeedsASecretForAnotherHost) {
  const auto loop = make_loop();
  for (const char* host : {"192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"}) {
    const auto link = Link::create(*loop, {host, 1}, {}, {}, {});
    ASSERT_FALSE(link.ok());
    EXPECT_EQ(link.error().code(), Code::kDenied);
    EXPECT_NE(link.error().message().find("tandem master --init"), std::string::npos);
  }
}

TEST(Link, SaysThatANameIsUnknown) {
  const auto loop = make_loop();
  Client client(*loop, 1, with_secret('s'), {}, "no.such.host.invalid");
  ASSERT_TRUE(wait_until(*loop, [&] { return !client.downs.empty(); }));
  EXPECT_NE(client.downs[0].message().find("no.such.host.invalid"), std::string::npos);
}

TEST(Link, IsSilentAfterItsStop) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  Client up(*loop, server.port(), with_secret('s'), fast());
  ASSERT_TRUE(wait_until(*loop, [&] { return up.ups == 1 && server.peers.size() == 1; }));
  Client connecting(*loop, server.port(), with_secret('s'), fast());
  up.link->stop();
  connecting.link->stop();
  ASSERT_TRUE(wait_until(*loop, [&] { return server.peers[0]->closed.size() == 1; }));
  loop->run_for(30ms);
  EXPECT_EQ(up.ups, 1);
  EXPECT_TRUE(up.downs.empty());
  EXPECT_EQ(connecting.ups, 0);
  EXPECT_TRUE(connecting.downs.empty());
  EXPECT_EQ(server.peers.size(), 1U);
}

TEST(Link, ConnectsAnewWhenItsChannelIsClosed) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  Client client(*loop, server.port(), with_secret('s'), fast());
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 1; }));
  client.channel().close(Closing::kNow);
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 2; }));
  ASSERT_EQ(client.downs.size(), 1U);
  EXPECT_EQ(client.downs[0].code(), Code::kCancelled);
}

TEST(Link, MayBeDestroyedByItsOwnCallbacks) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  std::unique_ptr<Link> link;
  const auto make = [&](Link::Handler handler, char secret) {
    link = std::move(Link::create(*loop, {"127.0.0.1", server.port()}, with_secret(secret), fast(),
                                  std::move(handler)))
               .value();
    EXPECT_TRUE(wait_until(*loop, [&] { return link == nullptr; }));
    loop->run_for(5ms);
  };
  const auto ends = [&](auto&&...) { link.reset(); };
  const auto nothing = [](auto&&...) {};
  make({.on_up = ends, .on_message = nothing, .on_down = nothing}, 's');
  make({.on_up = nothing, .on_message = nothing, .on_down = ends}, 'x');
  make({.on_up = [](Channel& channel) { channel.close(Closing::kNow); },
        .on_message = nothing,
        .on_down = ends},
       's');
}

}  // namespace
}  // namespace tandem::net
