#include "collective/gloo_engine.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "collective/gloo_testing.h"

namespace tandem::collective {
namespace {

using namespace std::chrono_literals;
using namespace gloo_testing;

// Ranks as threads.
void run_ranks(int size, const std::function<void(Engine&)>& work) {
  const auto server = start_store();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto engine = join(rank, size, server->port());
      ASSERT_TRUE(engine.ok()) << engine.error().message();
      work(**engine);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Bytes that tell who sent them to whom, and that no piece of another place can stand for: the
// block that is repeated has an odd length.
std::vector<std::byte> letter(int from, int to, std::size_t bytes) {
  constexpr std::size_t kBlock = 65521;
  std::vector<std::byte> letter(bytes);
  for (std::size_t i = 0; i < std::min(bytes, kBlock); ++i)
    letter[i] =
        static_cast<std::byte>(static_cast<std::size_t>(from * 7 + to * 31) + i * 13 + i / 251);
  for (std::size_t i = kBlock; i < bytes; i += kBlock)
    std::memcpy(letter.data() + i, letter.data(), std::min(kBlock, bytes - i));
  return letter;
}

class GlooEngineOf : public testing::TestWithParam<int> {};

TEST_P(GlooEngineOf, ExchangesEverySize) {
  run_ranks(GetParam(), [](Engine& engine) {
    const int size = engine.membership().size(), rank = engine.membership().rank;
    std::uint64_t moved = 0;
    for (const std::size_t bytes : {0ul, 1ul, 4097ul, 1ul << 20, 20ul << 20, 3ul}) {
      std::vector<std::vector<std::byte>> out, in;
      for (int peer = 0; peer < size; ++peer) {
        out.push_back(letter(rank, peer, bytes));
        in.emplace_back(bytes);
        if (peer != rank) moved += bytes;
      }
      const Status done = exchange_all(engine, out, in, deadline_after(10s));
      ASSERT_TRUE(done.ok()) << done.error().message();
      for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        const std::vector<std::byte> expected = letter(peer, rank, bytes);
        const std::vector<std::byte>& got = in[static_cast<std::size_t>(peer)];
        EXPECT_TRUE(bytes == 0 || std::memcmp(got.data(), expected.data(), bytes) == 0);
      }
    }
    EXPECT_EQ(engine.traffic().sent, moved);
    EXPECT_EQ(engine.traffic().received, moved);
  });
}

TEST_P(GlooEngineOf, KeepsTheOrderOfSeveralMessagesToOneRank) {
  run_ranks(GetParam(), [](Engine& engine) {
    const int size = engine.membership().size(), rank = engine.membership().rank;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    if (size == 1) return;
    for (std::uint32_t round = 0; round < 200; ++round) {
      std::uint32_t out[3] = {round, round + 1, round + 2}, in[3] = {};
      const auto sent = std::as_bytes(std::span(out));
      const auto got = std::as_writable_bytes(std::span(in));
      const Send sends[] = {{next, sent.subspan(0, 4)}, {next, sent.subspan(4, 8)}};
      const Receive receives[] = {{previous, got.subspan(0, 4)}, {previous, got.subspan(4, 8)}};
      ASSERT_TRUE(engine.exchange(sends, receives, deadline_after(5s)).ok());
      ASSERT_EQ(std::memcmp(out, in, sizeof in), 0);
    }
  });
}

template <typename Element>
void check_ring_sum(Engine& engine, Type type) {
  const int size = engine.membership().size(), rank = engine.membership().rank;
  for (const std::size_t count : {0ul, 1ul, 7ul, 100003ul}) {
    const auto memory = engine.allocate(count * sizeof(Element), deadline_after(1s));
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 64, 0u);
    auto* data = reinterpret_cast<Element*>(memory->data());
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(data[i], Element{});
      data[i] = static_cast<Element>(static_cast<std::size_t>(rank) + i % 1000);
    }
    const auto done =
        engine.all_reduce({data, count, type}, Op::kSum, Order::kRing, deadline_after(5s));
    ASSERT_TRUE(done.has_value());
    ASSERT_TRUE(done->ok()) << done->error().message();
    for (std::size_t i = 0; i < count; ++i) {
      const auto sum = static_cast<std::size_t>(size) * (i % 1000) +
                       static_cast<std::size_t>(size * (size - 1) / 2);
      ASSERT_EQ(data[i], static_cast<Element>(sum));
    }
  }
}

TEST_P(GlooEngineOf, SumsInARing) {
  run_ranks(GetParam(), [](Engine& engine) {
    check_ring_sum<float>(engine, Type::kFloat32);
    check_ring_sum<double>(engine, Type::kFloat64);
    check_ring_sum<std::int32_t>(engine, Type::kInt32);
    check_ring_sum<std::int64_t>(engine, Type::kInt64);
    float x = 1;
    const auto soon = deadline_after(1s);
    EXPECT_FALSE(engine.all_reduce({&x, 1}, Op::kSum, Order::kOrdered, soon).has_value());
    EXPECT_FALSE(engine.all_reduce({&x, 1}, Op::kMax, Order::kRing, soon).has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GlooEngineOf, testing::Values(1, 2, 3, 4, 8));

TEST(GlooEngine, ConnectionsDoNotDelaySmallMessages) {
  run_ranks(2, [](Engine&) {
    int checked = 0;
    for (int fd = 3; fd < 256; ++fd) {
      sockaddr_storage peer;
      socklen_t size = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
      int no_delay = 0;
      socklen_t option = sizeof no_delay;
      if (::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &option) != 0) continue;
      EXPECT_EQ(no_delay, 1);
      ++checked;
    }
    EXPECT_GE(checked, 1);
  });
}

TEST(GlooEngine, ARankThatIsDoneLeavesWithoutHarmToTheOthers) {
  for (int round = 0; round < 10; ++round) {
    run_ranks(3, [](Engine& engine) {
      const int rank = engine.membership().rank;
      if (rank == 2) return;
      std::byte out{1}, in{};
      for (int i = 0; i < 300; ++i) {
        const Send send{1 - rank, std::span(&out, 1)};
        const Receive receive{1 - rank, std::span(&in, 1)};
        const Status done = engine.exchange({&send, 1}, {&receive, 1}, deadline_after(5s));
        ASSERT_TRUE(done.ok()) << done.error().message();
      }
    });
  }
}

TEST(GlooEngine, WaitingForARankThatHasLeftIsALossThatNamesIt) {
  run_ranks(2, [](Engine& engine) {
    if (engine.membership().rank == 1) return;
    std::byte in{};
    const Receive receive{1, std::span(&in, 1)};
    const Status lost = engine.exchange({}, {&receive, 1}, deadline_after(5s));
    ASSERT_FALSE(lost.ok());
    EXPECT_EQ(lost.error().code(), Code::kPeerLost);
    EXPECT_NE(lost.error().message().find("worker 1"), std::string::npos);
    const Status again = engine.exchange({}, {&receive, 1}, deadline_after(5s));
    EXPECT_EQ(again.error().message(), lost.error().message());
  });
}

TEST(GlooEngine, ARankThatNeverJoinsIsNamed) {
  const auto server = start_store();
  auto store = StoreClient::connect("127.0.0.1", server->port(), "secret", deadline_after(2s));
  const auto engine =
      make_gloo_engine({members(0, 2), store->get(), "g1", "localhost", deadline_after(100ms)});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), Code::kTimeout);
  EXPECT_NE(engine.error().message().find("worker 1"), std::string::npos);
}

// Asks for the engine of rank 0 of 2, and gives up after some looks.
void expect_given_up(std::uint16_t port) {
  auto store = StoreClient::connect("127.0.0.1", port, "secret", deadline_after(2s));
  int looks = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto engine = make_gloo_engine({members(0, 2), store->get(), "g1", "127.0.0.1",
                                        deadline_after(60s), [&] { return ++looks > 3; }});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), Code::kPeerLost);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
}

TEST(GlooEngine, ARankThatNeverJoinsCanBeGivenUp) {
  const auto server = start_store();
  expect_given_up(server->port());
}

TEST(GlooEngine, ARankThatGaveItsAddressAndDiedCanBeGivenUp) {
  const auto server = start_store();
  // Rank 1 has an address above that of rank 0, which therefore waits to be called.
  std::thread dead([&] {
    auto store = StoreClient::connect("127.0.0.1", server->port(), "secret", deadline_after(2s));
    auto addresses = (*store)->get("g1/data/0", deadline_after(5s));
    ASSERT_TRUE(addresses.ok());
    constexpr std::size_t kPort = 2;  // Of a sockaddr_in.
    for (std::size_t address : {std::size_t{0}, addresses->size() / 2})
      std::fill_n(addresses->begin() + static_cast<long>(address + kPort), 2, std::byte{0xff});
    EXPECT_TRUE((*store)->set("g1/data/1", *addresses, deadline_after(5s)).ok());
  });
  expect_given_up(server->port());
  dead.join();
}

TEST(GlooEngine, AnUnknownBindAddressIsRefused) {
  const auto server = start_store();
  auto store = StoreClient::connect("127.0.0.1", server->port(), "secret", deadline_after(2s));
  for (const char* address : {"no-such-host.invalid", "192.0.2.1"}) {
    const auto engine =
        make_gloo_engine({members(0, 2), store->get(), "g1", address, deadline_after(1s)});
    ASSERT_FALSE(engine.ok());
    EXPECT_NE(engine.error().message().find(address), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem::collective
