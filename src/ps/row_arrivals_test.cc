#include "ps/row_arrivals.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "ps/row_list.h"

namespace tandem::ps {
namespace {

// Two workers and a table of ten rows of two floats, which begin at 1.
class RowArrivalsTest : public testing::Test {
 protected:
  void make(const AsyncRule& rule) {
    Plan plan;
    plan.parameters = plan.floats = 20;
    plan.buckets = {{0, 20}, {20, 20}};
    plan.trainable = {{0, 20}};
    plan.lanes = 2;
    plan.ends = {1, 2};
    plan.pull = Pull::kPartial;
    plan.tables = {{0, 10, 2}};
    plan.async = rule;
    auto made = DenseSlice::create({{0, 20}, 20, {{0, 20}}, {}, {}}, memory);
    ASSERT_TRUE(made.ok());
    slice = std::move(made).value();
    auto floats = slice->load(0, 0, 0, 20);
    ASSERT_TRUE(floats.ok());
    std::fill(floats->begin(), floats->end(), 1.0F);
    ASSERT_TRUE(slice->use(0).ok());
    rows.emplace(plan, Bucket{0, 20}, KeyShare{});
  }

  Status give(int worker, Header header, std::string_view payload) {
    header.bytes = payload.size();
    if (!payload.empty()) {
      TANDEM_ASSIGN(const std::span<std::byte> place, rows->place(header, worker, progress));
      std::memcpy(place.data(), payload.data(), payload.size());
    }
    return header.kind == Kind::kRowList ? rows->take_list(header, worker)
                                         : rows->take_push(header, worker, progress);
  }
  // Says which rows, and pulls them.
  Status pull(int worker, std::int64_t task, const RowList& list) {
    TANDEM_TRY(give(worker, {.kind = Kind::kRowList}, encode_rows(list, 0, list.size())));
    TANDEM_ASSIGN(const RowRound::Pull pulled,
                  rows->take_pull({.kind = Kind::kPullRows, .step = task}, worker, progress));
    std::vector<float> weights;
    for (const std::uint32_t row : pulled.rows) weights.insert(weights.end(), 2, weight(row));
    rows->note_answer(worker, pulled, weights);
    return {};
  }
  Status push(int worker, std::int64_t task, const std::vector<float>& gradients,
              std::uint64_t from = 0) {
    return give(
        worker, {.kind = Kind::kPushRows, .step = task, .number = 0.5, .sequence = from},
        {reinterpret_cast<const char*>(gradients.data()), gradients.size() * sizeof(float)});
  }
  void apply(int worker) {
    ASSERT_TRUE(rows->complete(worker));
    ASSERT_EQ(rows->apply(worker, {*slice}).value(), optim::Updated::kFinite);
    rows->end(worker);
  }
  float weight(std::size_t row) const { return slice->now({2 * row, 2 * row + 1})[0]; }

  std::vector<float> memory = std::vector<float>(40);
  std::unique_ptr<DenseSlice> slice;
  TaskProgress progress{0, 2, 1};
  std::optional<RowArrivals> rows;
};

TEST_F(RowArrivalsTest, AreAppliedWhenAllOfATaskHaveCome) {
  make({});
  ASSERT_TRUE(pull(0, 0, {3, 5}).ok());
  ASSERT_TRUE(pull(1, 1, {5}).ok());
  ASSERT_TRUE(push(0, 0, {1, 1}).ok());
  EXPECT_FALSE(rows->complete(0));
  ASSERT_TRUE(push(1, 1, {1, 1}).ok());
  EXPECT_EQ(rows->complete(1), 1);
  apply(1);
  ASSERT_TRUE(push(0, 0, {1, 1}, 1).ok());
  EXPECT_EQ(rows->complete(0), 0);
  apply(0);
  EXPECT_FALSE(rows->complete(0));
  EXPECT_EQ(weight(3), 0.5);
  EXPECT_EQ(weight(5), 0);
  EXPECT_EQ(weight(4), 1);
}

TEST_F(RowArrivalsTest, ARateIsLoweredByWhatWasMissedSinceThePull) {
  make({.stale_lr = StaleRate::kLowered});
  ASSERT_TRUE(pull(0, 0, {3}).ok());
  for (const std::int64_t task : {1, 2}) {
    ASSERT_TRUE(pull(1, task, {7}).ok());
    ASSERT_TRUE(push(1, task, {1, 1}).ok());
    apply(1);
  }
  EXPECT_EQ(weight(7), 0);
  ASSERT_TRUE(push(0, 0, {1, 1}).ok());
  apply(0);
  EXPECT_EQ(weight(3), 0.75);  // Two updates are a step's worth: half the rate.
}

TEST_F(RowArrivalsTest, AGradientIsCorrectedForWhatChangedSinceThePull) {
  make({.compensation = 0.5});
  ASSERT_TRUE(pull(0, 0, {3}).ok());
  ASSERT_TRUE(pull(1, 1, {3}).ok());
  ASSERT_TRUE(push(1, 1, {1, 1}).ok());
  apply(1);
  EXPECT_EQ(weight(3), 0.5);
  ASSERT_TRUE(push(0, 0, {2, 2}).ok());
  apply(0);
  // 2 + 0.5 * 2 * 2 * (0.5 - 1) = 1.
  EXPECT_EQ(weight(3), 0);
}

TEST_F(RowArrivalsTest, WhatMakesNoSenseIsRefused) {
  make({});
  ASSERT_TRUE(pull(0, 0, {3, 5}).ok());
  const auto why = [](const Status& status) { return status.ok() ? "" : status.error().message(); };
  EXPECT_EQ(why(push(0, -1, {1, 1})),
            "refused rows: task -1 does not belong to the stretch after step 0");
  EXPECT_EQ(why(push(0, 0, {1, std::numeric_limits<float>::infinity()})),
            "refused rows: the gradient of row 3 of table 0 is inf");
  ASSERT_TRUE(push(0, 0, {1, 1}).ok());
  EXPECT_EQ(why(push(0, 1, {1, 1}, 1)), "refused rows: task 1 while rows of task 0 come");
  EXPECT_EQ(why(pull(0, 1, {4})), "refused rows: list 0 is used in this step");
  EXPECT_NE(why(push(1, 1, {1, 1})), "") << "rows that the worker has not named";
}

}  // namespace
}  // namespace tandem::ps
