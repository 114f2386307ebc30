// A server that keeps tables by key: what it does, and what it refuses.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ps/row_list.h"
#include "ps/service.h"

namespace tandem::ps {
namespace {

constexpr double kRate = 0.5;

class Sent final : public Outbox {
 public:
  void send(PeerId, const Header& header, std::span<const std::byte>) override {
    headers.push_back(header);
  }
  void lend(PeerId to, const Header& header, std::span<const std::byte> payload,
            std::shared_ptr<const void> owner) override {
    send(to, header, payload);
    text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (is_slow) unsent.push_back(std::move(owner));
  }
  void send_text(PeerId, const Header& header, std::string payload) override {
    headers.push_back(header);
    text = std::move(payload);
  }
  void share(PeerId, const SharedMemory&) override {}
  std::uint64_t unsent_results(PeerId) const override { return 0; }
  void close(PeerId) override {}

  std::vector<Header> headers;
  std::string text;  // The last one.
  bool is_slow = false;
  std::vector<std::shared_ptr<const void>> unsent;
};

// Windows of 8 rows on tables of 100 and 50, then 3 parameters and a sum. The server is the first
// of two; the second has the pieces.
Plan plan_of(std::uint64_t generation) {
  Plan plan;
  plan.generation = generation;
  plan.tables = {{0, 8, 2}, {16, 8, 1}};
  plan.sparse = {{100, 3, 0.1}, {50, 4, 0}};
  plan.parameters = 27;
  plan.floats = 28;
  plan.buckets = {{0, 27}, {27, 28}};
  plan.trainable = {{0, 27}};
  plan.lanes = 2;
  plan.ends = {1, 2};
  plan.pull = Pull::kPartial;
  return plan;
}

RowList own_rows(std::uint32_t below) {
  RowList rows;
  for (std::uint32_t row = 0; row < below && rows.size() < 3; ++row) {
    if (KeyShare{0, 2}.holds(row)) rows.push_back(row);
  }
  return rows;
}

class ServiceTablesTest : public testing::Test {
 protected:
  Status give(PeerId peer, Header header, std::string_view payload = {}) {
    header.bytes = payload.size();
    if (payload.empty()) return service.message(peer, header, {});
    TANDEM_ASSIGN(const std::span<std::byte> place, service.place(peer, header));
    std::memcpy(place.data(), payload.data(), payload.size());
    return service.message(peer, header, place);
  }
  Status begin(int worker, const Plan& plan) {
    wire::PsBegin begin;
    *begin.mutable_plan() = to_wire(plan, {}, 2);
    begin.set_worker(worker);
    return give(static_cast<PeerId>(worker + 1), {.kind = Kind::kBegin}, begin.SerializeAsString());
  }
  void start(std::uint64_t generation) {
    ASSERT_TRUE(begin(0, plan_of(generation)).ok());
    ASSERT_TRUE(begin(1, plan_of(generation)).ok());
  }
  void load() {
    ASSERT_TRUE(give(1, {.kind = Kind::kLoad, .place = 24}).ok());
    for (std::uint64_t table = 0; table < 2; ++table)
      ASSERT_TRUE(give(1, {.kind = Kind::kLoadRecords, .place = table}).ok());
    ASSERT_TRUE(give(1, {.kind = Kind::kUse}).ok());
  }
  Status list(PeerId peer, std::uint32_t number, const RowList& of) {
    return give(peer, {.kind = Kind::kRowList, .slot = number}, encode_rows(of, 0, of.size()));
  }
  Status push(PeerId peer, std::uint64_t table, std::size_t floats, std::int64_t step,
              float value = 1) {
    const std::vector<float> gradients(floats, value);
    return give(peer,
                {.kind = Kind::kPushRows,
                 .slot = static_cast<std::uint32_t>(peer - 1),
                 .step = step,
                 .place = table,
                 .number = kRate},
                {reinterpret_cast<const char*>(gradients.data()), 4 * floats});
  }
  // Both workers push ones for the same rows of both tables.
  void make_step(std::int64_t step) {
    for (const PeerId peer : {PeerId{1}, PeerId{2}}) {
      ASSERT_TRUE(list(peer, 0, rows).ok());
      ASSERT_TRUE(push(peer, 0, 6, step).ok());
      ASSERT_TRUE(push(peer, 1, 3, step).ok());
    }
    ASSERT_EQ(out.headers.back().kind, Kind::kStepped);
    ASSERT_EQ(out.headers.back().step, step + 1);
  }
  std::vector<float> pull(std::int64_t step, PeerId peer = 1) {
    EXPECT_TRUE(list(peer, 0, rows).ok());
    EXPECT_TRUE(give(peer, {.kind = Kind::kPullRows, .slot = 0, .step = step, .place = 1}).ok());
    std::vector<float> weights(out.text.size() / 4);
    std::memcpy(weights.data(), out.text.data(), out.text.size());
    return weights;
  }
  static std::string why(const Status& status) {
    return status.ok() ? "" : status.error().message();
  }

  const RowList rows = own_rows(50);
  Sent out;
  Service service{out, [](const std::string&) {}};
};

TEST_F(ServiceTablesTest, AddsTheGradientsOfAllAndUpdatesOnce) {
  start(1);
  load();
  EXPECT_EQ(pull(0), (std::vector<float>{0, 0, 0}));
  make_step(0);
  EXPECT_EQ(pull(1), (std::vector<float>{-1, -1, -1}));  // 0.5 * (1 + 1).
}

TEST_F(ServiceTablesTest, TheNextGenerationGoesOnFromTheLastStepOrTheOneBefore) {
  start(1);
  load();
  make_step(0);
  make_step(1);
  service.gone(2, Error(Code::kPeerLost, "it died"));
  start(2);
  wire::PsBegun begun;
  ASSERT_TRUE(begun.ParseFromString(out.text));
  ASSERT_EQ(begun.held_size(), 1);
  EXPECT_EQ(begun.held(0).shares(), 2U);
  ASSERT_EQ(begun.held(0).steps_size(), 2);
  ASSERT_TRUE(give(1, {.kind = Kind::kUse, .step = 1}).ok());
  EXPECT_EQ(pull(1), (std::vector<float>{-1, -1, -1}));
  make_step(1);
  EXPECT_EQ(pull(2), (std::vector<float>{-2, -2, -2}));
}

TEST_F(ServiceTablesTest, ALoadThatWasNotFinishedBeginsAnew) {
  start(1);
  load();
  make_step(0);
  ASSERT_TRUE(give(1, {.kind = Kind::kFetchRecords, .step = 1, .place = 1, .number = 2}).ok());
  const std::string records = out.text;
  const Header some{.kind = Kind::kLoadRecords, .step = 5, .place = 1};
  service.gone(2, Error(Code::kPeerLost, "it died"));
  start(2);
  ASSERT_TRUE(give(1, {.kind = Kind::kLoad, .step = 5, .place = 24}).ok());
  ASSERT_TRUE(give(1, some, records).ok());
  service.gone(2, Error(Code::kPeerLost, "it died, too"));
  start(3);
  EXPECT_FALSE(give(1, {.kind = Kind::kUse, .step = 5}).ok()) << "half of a state";
  ASSERT_TRUE(give(1, {.kind = Kind::kLoad, .step = 5, .place = 24}).ok());
  EXPECT_EQ(why(give(1, some, records)), "");
  ASSERT_TRUE(give(1, {.kind = Kind::kUse, .step = 5}).ok());
  EXPECT_EQ(pull(5), (std::vector<float>{-1, -1, -1}));
}

TEST_F(ServiceTablesTest, WhatMakesNoSenseIsRefusedAndChangesNothing) {
  start(1);
  load();
  make_step(0);
  RowList others;
  for (std::uint32_t row = 0; others.empty(); ++row) {
    if (!KeyShare{0, 2}.holds(row)) others = {row};
  }
  const auto pull_of = [&](std::uint64_t table) {
    return why(give(1, {.kind = Kind::kPullRows, .slot = 0, .step = 1, .place = table}));
  };
  ASSERT_TRUE(list(1, 0, others).ok());
  EXPECT_NE(pull_of(0).find("is on server 1"), std::string::npos);
  ASSERT_TRUE(list(1, 0, {200}).ok());
  EXPECT_NE(pull_of(0).find("where 0 to 99 of table 0 are held"), std::string::npos);
  EXPECT_NE(pull_of(7).find("there is no table 7"), std::string::npos);
  EXPECT_FALSE(list(1, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8}).ok()) << "more than a window";
  ASSERT_TRUE(list(1, 0, rows).ok());
  EXPECT_NE(why(push(1, 0, 5, 1)).find("20 bytes"), std::string::npos);
  EXPECT_NE(why(push(1, 0, 6, 1, std::numeric_limits<float>::quiet_NaN())).find("is nan"),
            std::string::npos);
  EXPECT_FALSE(push(1, 0, 6, 3).ok());
  // Loads belong between two generations; what is fetched is of the state that is there.
  EXPECT_FALSE(give(1, {.kind = Kind::kLoadRecords, .step = 1}).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kFetchRecords, .step = 2, .number = 2}).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kFetchRecords, .step = 1, .place = 2, .number = 2}).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kFetchRecords, .code = 1, .step = 1, .number = 2}).ok());
  EXPECT_FALSE(give(1, {.kind = Kind::kFetchRecords, .step = 1, .number = 0}).ok());
  EXPECT_TRUE(give(1, {.kind = Kind::kFetchRecords, .step = 1, .number = 2}).ok());
  EXPECT_EQ(out.headers.back().number, 3);
  EXPECT_TRUE(give(1, {.kind = Kind::kSizes}).ok());
  wire::PsTableSizes sizes;
  ASSERT_TRUE(sizes.ParseFromString(out.text));
  EXPECT_EQ(sizes.tables(0).rows(), 3U);
  EXPECT_EQ(pull(1, 2), (std::vector<float>{-1, -1, -1}));
}

TEST_F(ServiceTablesTest, WhoDoesNotReadMayNotAskAgain) {
  start(1);
  load();
  make_step(0);
  const Header fetch{.kind = Kind::kFetchRecords, .step = 1, .number = 2};
  const auto pull_of = [&](std::uint64_t table) {
    return give(1, {.kind = Kind::kPullRows, .slot = 0, .step = 1, .place = table});
  };
  out.is_slow = true;
  ASSERT_TRUE(list(1, 0, rows).ok());
  EXPECT_TRUE(pull_of(0).ok());
  EXPECT_TRUE(pull_of(1).ok()) << "another table";
  EXPECT_TRUE(give(1, fetch).ok());
  EXPECT_TRUE(give(2, fetch).ok()) << "another worker";
  const std::size_t sent = out.headers.size();
  EXPECT_NE(why(pull_of(0)).find("before the last answer was read"), std::string::npos);
  EXPECT_NE(why(give(1, fetch)).find("before the last answer was read"), std::string::npos);
  EXPECT_EQ(out.headers.size(), sent);
  out.unsent.clear();
  EXPECT_TRUE(pull_of(0).ok());
  EXPECT_TRUE(give(1, fetch).ok());
}

TEST_F(ServiceTablesTest, PlansThatCannotBeAreRefused) {
  const auto refusal = [&](auto&& change) {
    Plan plan = plan_of(1);
    change(plan);
    return why(begin(0, plan));
  };
  EXPECT_NE(refusal([](Plan& plan) { plan.tables[1].begin = 17; }).find("windows"),
            std::string::npos);
  EXPECT_NE(refusal([](Plan& plan) { plan.sparse[0].keys = 7; }).find("windows"),
            std::string::npos);
  EXPECT_NE(refusal([](Plan& plan) { plan.sparse[0].scale = -1; }).find("windows"),
            std::string::npos);
  EXPECT_NE(refusal([](Plan& plan) { plan.sparse.pop_back(); }).find("how its tables are kept"),
            std::string::npos);
  EXPECT_NE(refusal([](Plan& plan) { plan.evict_after = -1; }).find("given up"), std::string::npos);
  EXPECT_NE(refusal([](Plan& plan) { plan.clip.norm = 1; }).find("cannot have"), std::string::npos);
  EXPECT_EQ(refusal([](Plan&) {}), "");
}

}  // namespace
}  // namespace tandem::ps
