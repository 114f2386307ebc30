#include "ps/service.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tandem::ps {
namespace {

class Sent final : public Outbox {
 public:
  void send(PeerId to, const Header& header, std::span<const std::byte>) override {
    kinds.emplace_back(to, header.kind);
  }
  void send_text(PeerId to, const Header& header, std::string) override {
    kinds.emplace_back(to, header.kind);
  }
  void share(PeerId, const SharedMemory&) override {}
  void close(PeerId) override {}

  std::vector<std::pair<PeerId, Kind>> kinds;
};

std::string begin_of(int worker, const std::string& name = "") {
  Plan plan;
  plan.generation = 1;
  plan.parameters = 8;
  plan.floats = 10;
  plan.buckets = {{0, 8}, {8, 10}};
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
  Service service{out, [](const std::string&) {}};
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
