#include "net/listener.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "net/proxy_testing.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

// Another limit of open descriptors, until the end of the test.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{std::min(most, before_.rlim_max), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Result<std::unique_ptr<Listener>> listen(Loop& loop, const Endpoint& endpoint,
                                         const Security& security) {
  return Listener::create(loop, endpoint, security, {},
                          {.on_channel = [](std::unique_ptr<Channel>) {}});
}

TEST(Listener, NeedsASecretForAnAddressThatOthersReach) {
  const auto loop = make_loop();
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto open = listen(*loop, {host, 0}, {});
    ASSERT_FALSE(open.ok());
    EXPECT_EQ(open.error().code(), Code::kDenied);
    EXPECT_NE(open.error().message().find("tandem master --init"), std::string::npos);
  }
  EXPECT_TRUE(listen(*loop, {"0.0.0.0", 0}, with_secret('s')).ok());
  EXPECT_TRUE(listen(*loop, {"127.0.0.1", 0}, {}).ok());
  EXPECT_TRUE(listen(*loop, {"localhost", 0}, {}).ok());
}

TEST(Listener, NamesTheAddressThatItCannotUse) {
  const auto loop = make_loop();
  const auto first = listen(*loop, {"127.0.0.1", 0}, {});
  ASSERT_TRUE(first.ok());
  const std::uint16_t port = (*first)->port();
  const auto second = listen(*loop, {"127.0.0.1", port}, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kInvalidArgument);
  EXPECT_NE(second.error().message().find("127.0.0.1:" + std::to_string(port)), std::string::npos);
  EXPECT_NE(second.error().message().find("choose another port"), std::string::npos);
  const auto foreign = listen(*loop, {"192.0.2.1", 0}, with_secret('s'));
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(listen(*loop, {"", 0}, with_secret('s')).ok());
}

TEST(Listener, AThousandSilentConnectionsDisturbNobody) {
  const DescriptorLimit limit(8192);
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  Client early(*loop, server.port(), with_secret('s'));
  ASSERT_TRUE(wait_until(*loop, [&] { return early.ups == 1 && server.peers.size() == 1; }));
  const std::size_t memory = resident_bytes();
  std::vector<Descriptor> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.push_back(raw_connect(server.port()));
    loop->poll_once(0ms);
    ASSERT_LE(server.listener->waiting(), Limits{}.waiting);
  }
  // The good peer talks on, and another gets in among them.
  Client late(*loop, server.port(), with_secret('s'));
  ASSERT_TRUE(early.channel().send(1, "hello").ok());
  const auto began = Loop::Clock::now();
  ASSERT_TRUE(wait_until(*loop, [&] {
    return late.ups == 1 && server.peers[0]->messages.size() == 1 && server.peers.size() == 2;
  }));
  EXPECT_LT(Loop::Clock::now() - began, 2s);
  ASSERT_TRUE(wait_until(*loop, [&] { return server.refused.size() >= 1000 - Limits{}.waiting; }));
  EXPECT_TRUE(late.downs.empty());
  EXPECT_LT(resident_bytes() - std::min(memory, resident_bytes()), std::size_t{24} << 20);
  // Those that were dropped were told why.
  const auto answer = parse_answer(raw_receive(*loop, silent[0], kHelloBytes));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->reason, Reason::kTooBusy);
}

TEST(Listener, ThoseWhoStopInTheMiddleDoNotKeepOthersOut) {
  const auto loop = make_loop();
  Limits limits;
  limits.waiting = 4;
  limits.handshake = 500ms;
  Server server(*loop, with_secret('s'), limits);
  std::vector<Descriptor> stuck;
  for (int i = 0; i < 4; ++i) {
    stuck.push_back(raw_connect(server.port()));
    raw_send(stuck.back(), raw_hello('n'));
    raw_receive(*loop, stuck.back(), kHelloBytes);
  }
  // At first they have the right to go on: the newcomer is sent away, and comes again.
  Limits eager;
  eager.backoff_first = 20ms;
  Client client(*loop, server.port(), with_secret('s'), eager);
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 1; }));
  EXPECT_LE(server.listener->waiting(), limits.waiting);
}

TEST(Listener, GivesAHandshakeOnlySoMuchTime) {
  const auto loop = make_loop();
  Limits limits;
  limits.handshake = 50ms;
  Server server(*loop, with_secret('s'), limits);
  const Descriptor silent = raw_connect(server.port()), slow = raw_connect(server.port());
  raw_send(slow, raw_hello('n').substr(0, 10));
  EXPECT_EQ(raw_receive(*loop, silent, 1), "");
  EXPECT_EQ(raw_receive(*loop, slow, 1), "");
  ASSERT_TRUE(wait_until(*loop, [&] { return server.refused.size() == 2; }));
  for (const Error& why : server.refused) EXPECT_EQ(why.code(), Code::kTimeout);
  EXPECT_EQ(server.listener->waiting(), 0U);
}

TEST(Listener, WaitsForDescriptorsInsteadOfSpinning) {
  const auto loop = make_loop();
  Server server(*loop, with_secret('s'));
  const Descriptor socket = raw_connect(server.port());
  std::size_t calls = 0;
  {
    // The next descriptor would be `socket` + 1 at least.
    const DescriptorLimit none(static_cast<rlim_t>(socket.get()) + 1);
    const auto end = Loop::Clock::now() + 250ms;
    while (Loop::Clock::now() < end) calls += loop->poll_once(10ms);
  }
  EXPECT_LT(calls, 20U);
  ASSERT_EQ(server.refused.size(), 1U);
  EXPECT_EQ(server.refused[0].code(), Code::kOutOfSpace);
  raw_handshake(*loop, socket, with_secret('s'));
  EXPECT_TRUE(wait_until(*loop, [&] { return server.peers.size() == 1; }));
}

TEST(Listener, MayBeDestroyedByItsOwnCallbacks) {
  const auto loop = make_loop();
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Channel> kept;
  auto made = Listener::create(*loop, {"127.0.0.1", 0}, with_secret('s'), {},
                               {.on_channel = [&](std::unique_ptr<Channel> channel) {
                                 kept = std::move(channel);
                                 listener.reset();
                               }});
  ASSERT_TRUE(made.ok());
  listener = std::move(made).value();
  Client client(*loop, listener->port(), with_secret('s'));
  ASSERT_TRUE(wait_until(*loop, [&] { return client.ups == 1 && listener == nullptr; }));
  kept->start(
      {.on_message = [](std::uint16_t, const std::string&) {}, .on_closed = [](const Error&) {}});
  ASSERT_TRUE(kept->send(1, "lives on").ok());
  EXPECT_TRUE(wait_until(*loop, [&] { return client.messages.size() == 1; }));
}

}  // namespace
}  // namespace tandem::net
