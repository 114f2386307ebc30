#include "ps/services.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tandem::ps {
namespace {

class Sent final : public Outbox {
 public:
  void send(PeerId to, const Header& header, std::span<const std::byte> payload) override {
    kinds.emplace_back(to, header.kind, payload.size());
  }
  void lend(PeerId to, const Header& header, std::span<const std::byte> payload,
            std::shared_ptr<const void>) override {
    send(to, header, payload);
  }
  void send_text(PeerId to, const Header& header, std::string) override {
    kinds.emplace_back(to, header.kind, 0);
  }
  void share(PeerId, const SharedMemory&) override {}
  std::uint64_t unsent_results(PeerId) const override { return 0; }
  void close(PeerId peer) override { closed.push_back(peer); }

  std::vector<std::tuple<PeerId, Kind, std::size_t>> kinds;
  std::vector<PeerId> closed;
};

class ServicesTest : public testing::Test {
 protected:
  static constexpr std::size_t kServers = 20;

  // One worker, one parameter in each of as many blocks as there are servers.
  static wire::PsBegin begin_of(std::uint64_t generation, const SliceCopy& which) {
    Plan plan;
    plan.generation = generation;
    plan.parameters = plan.floats = kServers * 1024;
    plan.buckets = {{0, plan.floats}, {plan.floats, plan.floats}};
    plan.trainable = {{0, static_cast<std::int64_t>(plan.floats)}};
    plan.ends = {1};
    plan.replicas = 2;
    wire::PsBegin begin;
    *begin.mutable_plan() = to_wire(plan, which, kServers);
    return begin;
  }
  Status give(PeerId peer, Header header, const std::string& payload = {}) {
    header.bytes = payload.size();
    if (payload.empty()) return services.message(peer, header, {});
    TANDEM_ASSIGN(const std::span<std::byte> place, services.place(peer, header));
    std::memcpy(place.data(), payload.data(), payload.size());
    return services.message(peer, header, place);
  }
  Status begin(PeerId peer, const wire::PsBegin& begin) {
    return give(peer, {.kind = Kind::kBegin}, begin.SerializeAsString());
  }
  static std::string floats(std::size_t count) { return std::string(4 * count, '\0'); }

  Sent out;
  Services services{out, [](const std::string&) {}};
};

TEST_F(ServicesTest, OnlyTheFirstCopySendsResults) {
  ASSERT_TRUE(begin(1, begin_of(1, {3, 0})).ok());
  ASSERT_TRUE(begin(2, begin_of(1, {2, 1})).ok());
  const std::size_t first[] = {3 * 1024, 2 * 1024};
  for (const PeerId peer : {1, 2}) {
    ASSERT_TRUE(give(peer, {.kind = Kind::kLoad, .place = first[peer - 1]}, floats(1024)).ok());
    ASSERT_TRUE(give(peer, {.kind = Kind::kUse}).ok());
    out.kinds.clear();
    ASSERT_TRUE(give(peer, {.kind = Kind::kPush, .number = 0.1}, floats(1024)).ok());
    EXPECT_EQ(out.kinds.back(), std::tuple(peer, Kind::kResult, peer == 1 ? 4096U : 0U));
  }
}

TEST_F(ServicesTest, ALaterGenerationEndsTheOneBeforeForAllSlices) {
  ASSERT_TRUE(begin(1, begin_of(1, {3, 0})).ok());
  ASSERT_TRUE(begin(2, begin_of(1, {2, 1})).ok());
  ASSERT_TRUE(begin(3, begin_of(2, {3, 0})).ok());
  EXPECT_EQ(out.closed, (std::vector<PeerId>{2, 1}));
  EXPECT_FALSE(give(2, {.kind = Kind::kUse}).ok());
  EXPECT_FALSE(begin(4, begin_of(1, {2, 1})).ok());
}

TEST_F(ServicesTest, WhoOnlyFetchesCanDoNothingElse) {
  wire::PsBegin reads;
  reads.mutable_plan()->set_generation(1);
  reads.set_only_fetches(true);
  ASSERT_TRUE(begin(1, reads).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kLoad}, floats(4)).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kUse}).ok());
  EXPECT_EQ(give(1, {.kind = Kind::kFetch, .sequence = 1}).error().code(), Code::kNotFound);
  EXPECT_FALSE(give(1, {.kind = Kind::kFetch, .sequence = ~std::uint64_t{0}}).ok());
}

TEST_F(ServicesTest, AWorkerCannotMakeAServerHoldAnyNumberOfSlices) {
  for (std::size_t slice = 0; slice < kMostCopies; ++slice)
    EXPECT_TRUE(begin(slice + 1, begin_of(1, {slice, 0})).ok());
  EXPECT_FALSE(begin(kMostCopies + 1, begin_of(1, {kMostCopies, 0})).ok());
}

TEST_F(ServicesTest, PlansWithMoreCopiesThanServersAreRefused) {
  wire::PsBegin begun = begin_of(1, {0, 1});
  begun.mutable_plan()->set_copy(2);
  EXPECT_FALSE(begin(1, begun).ok());
  begun.mutable_plan()->set_copy(-1);
  EXPECT_FALSE(begin(1, begun).ok());
  begun.mutable_plan()->set_copy(0);
  begun.mutable_plan()->set_replicas(21);
  EXPECT_FALSE(begin(1, begun).ok());
}

}  // namespace
}  // namespace tandem::ps
