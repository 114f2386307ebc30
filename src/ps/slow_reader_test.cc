// A peer that asks for a state and does not read it, while the server's others go on.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "ps/connect.h"
#include "ps/connection.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::seconds;

// More than the buffers of a connection hold.
constexpr std::size_t kFloats = std::size_t{4} << 20;

Plan plan_of(std::uint64_t generation) {
  Plan plan;
  plan.generation = generation;
  plan.parameters = plan.floats = kFloats;
  plan.buckets = {{0, kFloats}, {kFloats, kFloats}};
  plan.trainable = {{0, static_cast<std::int64_t>(kFloats)}};
  plan.ends = {1};
  return plan;
}

std::unique_ptr<Client> connect(const TestServers& servers, std::vector<net::Endpoint> present,
                                std::uint64_t generation) {
  auto client = Client::connect({.servers = std::move(present),
                                 .token = servers.token(),
                                 .plan = plan_of(generation),
                                 .name = "worker 0"},
                                deadline_after(seconds(20)));
  EXPECT_TRUE(client.ok()) << client.error().message();
  return client.ok() ? std::move(client).value() : nullptr;
}

class SlowReader final : public Receiver {
 public:
  SlowReader(const TestServers& servers, const net::Endpoint& server, std::uint64_t generation)
      : connection_(
            connect_to(server, servers.token(), nullptr, deadline_after(seconds(20))).value(),
            "server") {
    wire::PsBegin begin;
    begin.mutable_plan()->set_generation(generation);
    begin.set_only_fetches(true);
    connection_.send_text({.kind = Kind::kBegin}, begin.SerializeAsString());
    EXPECT_TRUE(connection_.flush().ok());
    EXPECT_EQ(read_one(), Kind::kBegun);
  }

  // Asks, and returns when the answer has begun to come.
  void ask(std::size_t floats) {
    connection_.send({.kind = Kind::kFetch, .sequence = floats});
    EXPECT_TRUE(connection_.flush().ok());
    pollfd entry{connection_.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 20'000), 1) << "no answer";
  }

  // Asks so often, reading nothing, or until the server hears no more.
  void ask_often(std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) connection_.send({.kind = Kind::kFetch, .sequence = 1});
    while (connection_.has_unsent() && connection_.flush().ok()) {
      pollfd entry{connection_.fd(), POLLOUT, 0};
      if (::poll(&entry, 1, 20'000) != 1) return;
    }
  }

  // The kind of the next message; kFailed when the connection is over.
  Kind read_one() {
    came_.reset();
    while (!came_) {
      pollfd entry{connection_.fd(), POLLIN, 0};
      if (::poll(&entry, 1, 20'000) != 1 || !connection_.turn(*this).ok()) return Kind::kFailed;
    }
    return *came_;
  }

  std::span<const float> floats() const { return floats_of(payload_); }

 private:
  Result<std::span<std::byte>> place(const Header& header) override {
    payload_.resize(header.bytes);
    return std::span(payload_);
  }
  Status message(const Header& header, std::span<const std::byte>) override {
    came_ = header.kind;
    return {};
  }

  Connection connection_;
  std::vector<std::byte> payload_;
  std::optional<Kind> came_;
};

TEST(SlowReader, GetsTheWholeStateThoughTheServerHasDroppedIt) {
  TestServers running(2);
  const auto& all = running.endpoints();
  std::vector<float> parameters(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i) parameters[i] = static_cast<float>(i);
  {
    const auto alone = connect(running, {all[0]}, 1);
    ASSERT_TRUE(alone && alone->load(0, {parameters}, deadline_after(seconds(20))).ok());
  }
  // The first server keeps all of it until the generation with another cut has made a step.
  const auto both = connect(running, all, 2);
  ASSERT_TRUE(both && both->load(0, {parameters}, deadline_after(seconds(20))).ok());
  SlowReader reader(running, all[0], 2);
  reader.ask(kFloats);
  std::ranges::fill(both->partial(0), 1.0F);
  both->begin(0, 0.1);
  for (int bucket = 0; bucket < 2; ++bucket) ASSERT_TRUE(both->ready(1).ok());
  ASSERT_TRUE(both->finish(deadline_after(seconds(20))).ok());
  ASSERT_EQ(reader.read_one(), Kind::kState);
  EXPECT_TRUE(std::ranges::equal(reader.floats(), parameters));
}

TEST(SlowReader, IsRefusedWhenItAsksOnAndOn) {
  constexpr std::size_t kTimes = 200'000;
  TestServers running(1);
  const auto client = connect(running, running.endpoints(), 1);
  std::vector<float> parameters(kFloats, 1.0F);
  ASSERT_TRUE(client && client->load(0, {parameters}, deadline_after(seconds(20))).ok());
  SlowReader reader(running, running.endpoints()[0], 1);
  reader.ask(kFloats);  // Fills the way.
  reader.ask_often(kTimes);
  std::size_t answers = 0;
  while (reader.read_one() == Kind::kState) ++answers;
  EXPECT_LT(answers, kTimes / 2);
  EXPECT_TRUE(client->fetch(0, {parameters}, deadline_after(seconds(20))).ok()) << "another peer";
}

}  // namespace
}  // namespace tandem::ps
