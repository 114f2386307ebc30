#include "collective/store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "collective/store_protocol.h"

namespace tandem::collective {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<StoreServer> start() {
  auto server = StoreServer::start("127.0.0.1", 0, "secret");
  EXPECT_TRUE(server.ok());
  return std::move(server).value();
}

std::unique_ptr<StoreClient> connect(const StoreServer& server) {
  auto client = StoreClient::connect("127.0.0.1", server.port(), "secret", deadline_after(2s));
  EXPECT_TRUE(client.ok());
  return std::move(client).value();
}

Descriptor raw_connection(const StoreServer& server) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience{2, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return socket;
}

void send_all(const Descriptor& socket, std::span<const std::byte> bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// 0 when the server closed, -1 when it stayed silent or reset.
ssize_t next_byte(const Descriptor& socket, std::byte& into) {
  return ::recv(socket.get(), &into, 1, 0);
}

TEST(Store, GivesWhatAnotherClientSet) {
  const auto server = start();
  const auto writer = connect(*server), reader = connect(*server);
  ASSERT_TRUE(writer->set("a", bytes_of("one"), deadline_after(2s)).ok());
  ASSERT_TRUE(writer->set("a", bytes_of("two"), deadline_after(2s)).ok());
  ASSERT_TRUE(writer->set("empty", {}, deadline_after(2s)).ok());
  EXPECT_EQ(text_of(reader->get("a", deadline_after(2s)).value()), "two");
  EXPECT_EQ(text_of(reader->get("empty", deadline_after(2s)).value()), "");
}

TEST(Store, GetWaitsUntilTheKeyExists) {
  const auto server = start();
  const auto writer = connect(*server), reader = connect(*server);
  std::thread waits(
      [&] { EXPECT_EQ(text_of(reader->get("later", deadline_after(5s)).value()), "here"); });
  ASSERT_TRUE(writer->set("other", bytes_of("x"), deadline_after(2s)).ok());
  ASSERT_TRUE(writer->set("later", bytes_of("here"), deadline_after(2s)).ok());
  waits.join();
}

TEST(Store, GetThatTimesOutNamesTheKeyAndLeavesTheClientUsable) {
  const auto server = start();
  const auto writer = connect(*server), reader = connect(*server);
  const auto late = reader->get("never", deadline_after(30ms));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  EXPECT_NE(late.error().message().find("`never`"), std::string::npos);
  // Its answer comes now and must not be taken for that of the next call.
  ASSERT_TRUE(writer->set("never", bytes_of("stale"), deadline_after(2s)).ok());
  ASSERT_TRUE(writer->set("b", bytes_of("fresh"), deadline_after(2s)).ok());
  EXPECT_EQ(text_of(reader->get("b", deadline_after(2s)).value()), "fresh");
}

TEST(Store, CarriesTheLargestValueAndRefusesALargerOne) {
  const auto server = start();
  const auto client = connect(*server);
  const std::string largest(store::kMaxValueBytes, 'v'), key(store::kMaxKeyBytes, 'k');
  ASSERT_TRUE(client->set(key, bytes_of(largest), deadline_after(2s)).ok());
  EXPECT_EQ(text_of(client->get(key, deadline_after(2s)).value()), largest);
  const Status value = client->set("k", bytes_of(largest + "v"), deadline_after(2s));
  EXPECT_EQ(value.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(client->get(key + "k", deadline_after(2s)).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(client->get("", deadline_after(2s)).error().code(), Code::kInvalidArgument);
}

TEST(Store, GivesAKeyToTheFirstWhoClaimsIt) {
  const auto server = start();
  const auto first = connect(*server), second = connect(*server);
  const auto ours = first->claim("seat", bytes_of("a"), deadline_after(2s));
  ASSERT_TRUE(ours.ok()) << ours.error().message();
  EXPECT_FALSE(ours->has_value());
  const auto taken = second->claim("seat", bytes_of("b"), deadline_after(2s));
  ASSERT_TRUE(taken.ok() && taken->has_value());
  EXPECT_EQ(text_of(**taken), "a");
  EXPECT_EQ(text_of(second->get("seat", deadline_after(2s)).value()), "a");
}

TEST(Store, RefusesAnotherToken) {
  const auto server = start();
  const auto client =
      StoreClient::connect("127.0.0.1", server->port(), "guess", deadline_after(2s));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), Code::kDenied);
  EXPECT_NE(client.error().message().find("TOKEN"), std::string::npos);
}

TEST(Store, TellsAnotherVersionSo) {
  const auto server = start();
  const Descriptor socket = raw_connection(*server);
  store::GreetingBytes greeting = store::greeting_for("secret");
  greeting[7] = std::byte{99};
  send_all(socket, greeting);
  std::byte answer{};
  ASSERT_EQ(next_byte(socket, answer), 1);
  EXPECT_EQ(static_cast<store::Greeting>(answer), store::Greeting::kOtherVersion);
  EXPECT_EQ(next_byte(socket, answer), 0);
}

TEST(Store, DropsGarbageAtOnce) {
  const auto server = start();
  const Descriptor stranger = raw_connection(*server);
  send_all(stranger, bytes_of("GET / HTTP/1.1\r\n"));
  std::byte answer{};
  EXPECT_LE(next_byte(stranger, answer), 0);

  const Descriptor liar = raw_connection(*server);
  send_all(liar, store::greeting_for("secret"));
  ASSERT_EQ(next_byte(liar, answer), 1);
  send_all(liar, store::to_bytes({1, 1, 0xffffffff, 1}));
  EXPECT_LE(next_byte(liar, answer), 0);
}

TEST(Store, SilentAndSlowClientsBlockNobody) {
  const auto server = start();
  const Descriptor silent = raw_connection(*server), slow = raw_connection(*server);
  const std::string value(store::kMaxValueBytes, 'v');
  const auto client = connect(*server);
  ASSERT_TRUE(client->set("big", bytes_of(value), deadline_after(2s)).ok());
  // Asks for 16 MiB and reads none of it.
  send_all(slow, store::greeting_for("secret"));
  for (std::uint32_t i = 0; i < 256; ++i) {
    send_all(slow, store::to_bytes({2, 3, 0, i}));
    send_all(slow, bytes_of("big"));
  }
  EXPECT_EQ(text_of(client->get("big", deadline_after(2s)).value()), value);
  EXPECT_EQ(text_of(connect(*server)->get("big", deadline_after(2s)).value()), value);
}

TEST(Store, KeepsOnlySoManyStrangersAndDropsTheOldestThatSaidNothing) {
  const auto server = start();
  const Descriptor begun = raw_connection(*server);
  send_all(begun, bytes_of("TANDEM"));
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < store::kMaxStrangers; ++i) silent.push_back(raw_connection(*server));
  std::byte answer{};
  EXPECT_EQ(next_byte(silent.front(), answer), 0);
  ASSERT_NE(connect(*server), nullptr);
  EXPECT_EQ(next_byte(silent[1], answer), 0);
  std::byte none{};
  EXPECT_EQ(::recv(begun.get(), &none, 1, MSG_DONTWAIT), -1) << "it has its time";
}

TEST(Store, ClientWaitsForAServerThatStartsLater) {
  std::uint16_t port = 0;
  { port = start()->port(); }
  std::thread waits([&] {
    const auto client = StoreClient::connect("localhost", port, "secret", deadline_after(5s));
    EXPECT_TRUE(client.ok()) << client.error().message();
  });
  const auto server = StoreServer::start("localhost", port, "secret");
  EXPECT_TRUE(server.ok()) << server.error().message();
  waits.join();
}

TEST(Store, NobodyListeningIsATimeoutThatSaysWhere) {
  std::uint16_t port = 0;
  { port = start()->port(); }
  const auto client = StoreClient::connect("127.0.0.1", port, "secret", deadline_after(50ms));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), Code::kTimeout);
  EXPECT_NE(client.error().message().find("127.0.0.1:" + std::to_string(port)), std::string::npos);
}

TEST(Store, WhoeverIsToldToGiveUpWaitsForNoServer) {
  std::uint16_t port = 0;
  { port = start()->port(); }
  int asked = 0;
  const auto client = StoreClient::connect("127.0.0.1", port, "secret", deadline_after(60s),
                                           [&] { return ++asked == 3; });
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), Code::kPeerLost);
}

TEST(Store, ServerThatEndsIsLostToItsClients) {
  auto server = start();
  const auto client = connect(*server);
  std::thread waits([&] {
    const auto value = client->get("x", deadline_after(5s));
    EXPECT_EQ(value.error().code(), Code::kPeerLost);
  });
  server.reset();
  waits.join();
}

TEST(Store, ServesManyClientsAtOnce) {
  const auto server = start();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 16; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto client = connect(*server);
      const std::string own = std::to_string(rank);
      EXPECT_TRUE(client->set("rank" + own, bytes_of(own), deadline_after(5s)).ok());
      for (int other = 0; other < 16; ++other) {
        const auto value = client->get("rank" + std::to_string(other), deadline_after(5s));
        EXPECT_EQ(text_of(value.value()), std::to_string(other));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace tandem::collective
