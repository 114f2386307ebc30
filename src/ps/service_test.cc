#include "ps/service.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <limits>

namespace tandem::ps {
namespace {

class Sent final : public Outbox {
 public:
  void send(PeerId to, const Header& header, std::span<const std::byte>) override {
    kinds.emplace_back(to, header.kind);
  }
  void lend(PeerId to, const Header& header, std::span<const std::byte> payload,
            std::shared_ptr<const void>) override {
    send(to, header, payload);
    const auto floats = floats_of(payload);
    fetched.assign(floats.begin(), floats.end());
  }
  void send_text(PeerId to, const Header& header, std::string payload) override {
    kinds.emplace_back(to, header.kind);
    text = std::move(payload);
  }
  void share(PeerId, const SharedMemory&) override {}
  std::uint64_t unsent_results(PeerId) const override { return unsent; }
  void close(PeerId) override {}

  std::vector<std::pair<PeerId, Kind>> kinds;
  std::vector<float> fetched;  // The last state.
  std::string text;            // The last one.
  std::uint64_t unsent = 0;
};

std::string begin_of(int worker, const std::string& name = "", std::uint64_t generation = 1,
                     std::optional<AsyncRule> async = std::nullopt) {
  Plan plan;
  plan.async = async;
  plan.generation = generation;
  plan.parameters = 8;
  plan.floats = 10;
  plan.buckets = {{0, 8}, {8, 10}};
  if (async) {  // Without numbers behind the parameters.
    plan.floats = 8;
    plan.buckets.back() = {8, 8};
  }
  plan.trainable = {{0, 8}};
  plan.lanes = 2;
  plan.ends = {1, 2};
  wire::PsBegin begin;
  *begin.mutable_plan() = to_wire(plan, {}, 1);
  begin.set_worker(worker);
  begin.set_name(name);
  return begin.SerializeAsString();
}

class ServiceTest : public testing::Test {
 protected:
  Status give(PeerId peer, Header header, std::string_view payload = {}) {
    header.bytes = payload.size();
    if (payload.empty()) return service.message(peer, header, {});
    TANDEM_ASSIGN(const std::span<std::byte> place, service.place(peer, header));
    std::memcpy(place.data(), payload.data(), payload.size());
    return service.message(peer, header, place);
  }
  Status give_floats(PeerId peer, const Header& header, std::size_t count) {
    const std::vector<float> floats(count, 0.5F);
    return give(peer, header, {reinterpret_cast<const char*>(floats.data()), 4 * count});
  }
  void begin_both() {
    EXPECT_TRUE(give(1, {.kind = Kind::kBegin}, begin_of(0)).ok());
    EXPECT_TRUE(give(2, {.kind = Kind::kBegin}, begin_of(1)).ok());
  }
  void load() {
    EXPECT_TRUE(give_floats(1, {.kind = Kind::kLoad}, 8).ok());
    EXPECT_TRUE(give(1, {.kind = Kind::kUse}).ok());
  }

  Sent out;
  std::string logged;  // The last line.
  Service service{out, [this](const std::string& line) { logged = line; }};
};

TEST_F(ServiceTest, PeersMayBeginAtTheSameTime) {
  const std::string first = begin_of(0), second = begin_of(1, std::string(3000, 'x'));
  const Header header{.kind = Kind::kBegin, .bytes = first.size()};
  const auto place = service.place(1, header);
  ASSERT_TRUE(place.ok());
  std::memcpy(place->data(), first.data(), 10);
  EXPECT_TRUE(give(2, {.kind = Kind::kBegin}, second).ok());
  std::memcpy(place->data() + 10, first.data() + 10, first.size() - 10);
  EXPECT_TRUE(service.message(1, header, *place).ok());
}

TEST_F(ServiceTest, AGenerationThatCannotBeginIsOverForAll) {
  // No shared memory of any size. Not: no descriptors, without which the sanitizers do not work.
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const Status first = give(1, {.kind = Kind::kBegin}, begin_of(0, "", 1, AsyncRule{}));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(first.ok());
  EXPECT_NE(first.error().message().find("shared memory"), std::string::npos)
      << first.error().message();
  EXPECT_FALSE(give(2, {.kind = Kind::kBegin}, begin_of(1, "", 1, AsyncRule{})).ok());
  EXPECT_TRUE(give(1, {.kind = Kind::kBegin}, begin_of(0, "", 2, AsyncRule{})).ok());
}

TEST_F(ServiceTest, PushesBeforeThereIsAStateAreRefused) {
  begin_both();
  EXPECT_FALSE(give_floats(1, {.kind = Kind::kPush, .step = -1, .number = 0.1}, 8).ok());
  EXPECT_FALSE(give_floats(1, {.kind = Kind::kPush, .step = 0, .number = 0.1}, 8).ok());
  EXPECT_TRUE(give_floats(1, {.kind = Kind::kLoad}, 8).ok());
  EXPECT_FALSE(give_floats(1, {.kind = Kind::kPush, .step = 0, .number = 0.1}, 8).ok());
}

TEST_F(ServiceTest, AStateIsNotReplacedWhileWorkersTrainOnIt) {
  begin_both();
  load();
  EXPECT_FALSE(give_floats(1, {.kind = Kind::kLoad, .step = 3}, 8).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kUse, .step = 0}).ok());
  EXPECT_TRUE(give_floats(1, {.kind = Kind::kPush, .slot = 0, .number = 0.1}, 8).ok());
  out.kinds.clear();
  EXPECT_TRUE(give_floats(2, {.kind = Kind::kPush, .slot = 1, .number = 0.1}, 8).ok());
  EXPECT_EQ(out.kinds,
            (std::vector<std::pair<PeerId, Kind>>{{1, Kind::kResult}, {2, Kind::kResult}}));
}

TEST_F(ServiceTest, WhoDoesNotReadItsResultsCannotPushOn) {
  begin_both();
  load();
  for (const PeerId peer : {1, 2}) {
    const Header push{
        .kind = Kind::kPush, .slot = static_cast<std::uint32_t>(peer - 1), .number = 0.1};
    EXPECT_TRUE(give_floats(peer, push, 8).ok());
    Header rest = push;
    rest.place = 1;
    EXPECT_TRUE(give_floats(peer, rest, 2).ok());
  }
  const Header next{.kind = Kind::kPush, .step = 1, .number = 0.1};
  out.unsent = cost_of(8 * sizeof(float)) + cost_of(2 * sizeof(float));
  const Status refused = give_floats(1, next, 8);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("credit"), std::string::npos);
  out.unsent = 0;
  EXPECT_TRUE(give_floats(1, next, 8).ok());
}

// Every other worker's updates are those of a run in which nothing was refused.
TEST_F(ServiceTest, AMalformedPushCostsNobodyElseAnUpdate) {
  const Header good{.kind = Kind::kPush, .slot = 1, .number = 0.1};
  struct Case {
    const char* what;
    Header header;
    std::size_t floats;
  };
  Header no_piece = good, no_sum = good, negative = good, no_number = good;
  no_piece.place = 9;
  no_sum.slot = 7;
  negative.number = -0.1;
  no_number.number = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases = {{"piece 0 has 8 floats, and 28 bytes came", good, 7},
                                   {"piece 9, and there are 2", no_piece, 8},
                                   {"partial sum 7 is not the worker's", no_sum, 8},
                                   {"learning rate -0.1", negative, 8},
                                   {"learning rate nan", no_number, 8}};
  PeerId next = 1;
  std::int64_t step = 0;
  const auto begin_next = [&](std::uint64_t generation) {
    for (const int worker : {0, 1}) {
      const std::string name = worker == 0 ? "the first" : "the second";
      ASSERT_TRUE(give(next++, {.kind = Kind::kBegin}, begin_of(worker, name, generation)).ok());
    }
    if (generation == 1) {
      ASSERT_TRUE(give_floats(1, {.kind = Kind::kLoad}, 8).ok());
    }
    ASSERT_TRUE(give(next - 2, {.kind = Kind::kUse, .step = step}).ok());
  };
  begin_next(1);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const PeerId first = next - 2, second = next - 1;
    Header push{.kind = Kind::kPush, .slot = 0, .step = step, .number = 0.1}, bad = cases[i].header;
    bad.step = step;
    ASSERT_TRUE(give_floats(first, push, 8).ok());
    const Status refused = give_floats(second, bad, cases[i].floats);
    ASSERT_FALSE(refused.ok()) << cases[i].what;
    service.gone(second, refused.error());
    EXPECT_EQ(out.kinds.back(), std::pair(first, Kind::kFailed));
    for (const std::string& told : {out.text, logged}) {
      EXPECT_NE(told.find("the second: refused a push: "), std::string::npos) << told;
      EXPECT_NE(told.find(cases[i].what), std::string::npos) << told;
    }
    begin_next(i + 2);
    for (const std::uint64_t place : {0, 1}) {
      for (const std::uint32_t slot : {0, 1}) {
        push.place = place;
        push.slot = slot;
        ASSERT_TRUE(give_floats(next - 2 + slot, push, place == 0 ? 8 : 2).ok());
      }
    }
    ++step;
    ASSERT_TRUE(give(next - 2, {.kind = Kind::kFetch, .step = step, .sequence = 8}).ok());
    EXPECT_EQ(out.fetched.size(), 8U);
    // Each step takes 0.1 times the sum of both.
    for (const float value : out.fetched)
      EXPECT_NEAR(value, 0.5F - 0.1F * static_cast<float>(step), 1e-6) << cases[i].what;
  }
}

TEST_F(ServiceTest, RefusesPlansThatDoNotCoverTheVectorOnce) {
  Plan plan;
  plan.generation = 1;
  plan.parameters = 10;
  plan.floats = 20;
  plan.lanes = 1;
  plan.ends = {1};
  for (const std::vector<Bucket>& buckets :
       {std::vector<Bucket>{}, {{5, 10}, {5, 20}}, {{0, 10}}, {{0, 10}, {10, 19}}}) {
    plan.buckets = buckets;
    EXPECT_FALSE(from_wire(to_wire(plan, {}, 1)).ok());
  }
  plan.buckets = {{4, 10}, {0, 4}, {10, 20}};
  EXPECT_TRUE(from_wire(to_wire(plan, {}, 1)).ok());
}

}  // namespace
}  // namespace tandem::ps
