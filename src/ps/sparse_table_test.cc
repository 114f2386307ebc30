#include "ps/sparse_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/rng.h"

namespace tandem::ps {
namespace {

using Keys = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

SparseTable make(const SparseTableConfig& config) {
  auto table = SparseTable::create(config);
  EXPECT_TRUE(table.ok());
  return std::move(table).value();
}

Floats pull(const SparseTable& table, const Keys& keys) {
  Floats weights(keys.size() * static_cast<std::size_t>(table.config().width));
  EXPECT_TRUE(table.pull(keys, weights).ok());
  return weights;
}

Pushed push(SparseTable& table, const Keys& keys, const Floats& gradients) {
  const auto pushed = table.push(keys, gradients);
  EXPECT_TRUE(pushed.ok());
  return *pushed;
}

std::string complaint(const Status& status) {
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  return status.error().message();
}

TEST(SparseTable, AppliesAGradientToItsKeyAlone) {
  SparseTable table = make({.width = 2, .optimizer = {.lr = 0.5}});
  const Pushed pushed = push(table, {7, 9}, {1, 2, 3, 4});
  EXPECT_EQ(pushed.applied, 2);
  EXPECT_EQ(pushed.created, 2);
  EXPECT_EQ(pull(table, {9, 8, 7}), (Floats{-1.5F, -2, 0, 0, -0.5F, -1}));
  EXPECT_EQ(table.rows(), 2);
}

TEST(SparseTable, AppliesTheSameKeyTwiceInOrder) {
  SparseTable twice = make({.optimizer = {.lr = 1, .momentum = 0.5}});
  SparseTable once = make({.optimizer = {.lr = 1, .momentum = 0.5}});
  EXPECT_EQ(push(twice, {7, 7}, {1, 8}).applied, 2);
  push(once, {7}, {1});
  push(once, {7}, {8});
  EXPECT_EQ(pull(twice, {7}), (Floats{-1 - 8.5F}));
  EXPECT_EQ(pull(once, {7}), pull(twice, {7}));
}

TEST(SparseTable, BeginsRowsAsAFunctionOfSeedAndKey) {
  const SparseTableConfig config = {.width = 4, .seed = 3, .init_scale = 0.5};
  SparseTable first = make(config), second = make(config);
  const Floats zeros(8, 0.0F);
  push(first, {1, 2}, zeros);
  push(second, {2}, Floats(4));
  const Floats begins = pull(first, {1, 2});
  EXPECT_EQ(pull(second, {1, 2}), begins) << "whether and when a row was made does not matter";
  for (const float weight : begins) {
    EXPECT_GE(weight, -0.5F);
    EXPECT_LT(weight, 0.5F);
    EXPECT_NE(weight, 0);
  }
  EXPECT_NE(Floats(begins.begin(), begins.begin() + 4), Floats(begins.begin() + 4, begins.end()));
  SparseTableConfig other = config;
  other.seed = 4;
  EXPECT_NE(pull(make(other), {1, 2}), begins);
}

TEST(SparseTable, PullsCreateNothing) {
  SparseTable table = make({.admit_after = 2});
  pull(table, {1, 2, 3});
  EXPECT_EQ(table.rows(), 0);
  EXPECT_EQ(table.candidates(), 0);
}

TEST(SparseTable, DropsPushesUntilAKeyIsAdmitted) {
  SparseTable table = make({.optimizer = {.lr = 1}, .init_scale = 0.1, .admit_after = 2});
  const Floats begin = pull(table, {5});
  for (int i = 0; i < 2; ++i) {
    const Pushed pushed = push(table, {5}, {1});
    EXPECT_EQ(pushed.dropped, 1);
    EXPECT_EQ(pushed.applied, 0);
    EXPECT_EQ(pull(table, {5}), begin);
    EXPECT_EQ(table.candidates(), 1);
  }
  const Pushed pushed = push(table, {5}, {1});
  EXPECT_EQ(pushed.created, 1);
  EXPECT_EQ(pull(table, {5}), (Floats{begin[0] - 1}));
  EXPECT_EQ(table.candidates(), 0);
}

TEST(SparseTable, ForgetsWhatWasNotTouchedForTooLong) {
  SparseTable table = make({.optimizer = {.lr = 1, .momentum = 0.9}, .evict_after = 10});
  push(table, {1, 2}, {1, 1});
  ASSERT_TRUE(table.begin_step(10, 1).ok());
  EXPECT_EQ(pull(table, {1}), (Floats{-1}));
  push(table, {2}, {0});
  ASSERT_TRUE(table.begin_step(11, 1).ok());
  EXPECT_EQ(pull(table, {1, 2}), (Floats{0, -1.9F})) << "before any sweep";
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.sweep(1 << 20).rows, 1);
  EXPECT_EQ(table.rows(), 1);
  EXPECT_EQ(table.evicted(), 1);
  EXPECT_EQ(push(table, {1}, {1}).created, 1);
  EXPECT_EQ(pull(table, {1}), (Floats{-1})) << "its momentum is forgotten too";
}

TEST(SparseTable, AnOldRowMustBeAdmittedAgain) {
  SparseTable table = make({.optimizer = {.lr = 1}, .admit_after = 1, .evict_after = 5});
  push(table, {1}, {1});
  push(table, {1}, {1});
  ASSERT_TRUE(table.begin_step(6, 1).ok());
  EXPECT_EQ(push(table, {1}, {1}).dropped, 1);
  EXPECT_EQ(table.rows(), 0);
  ASSERT_TRUE(table.begin_step(11, 1).ok());
  EXPECT_EQ(push(table, {1}, {1}).dropped, 1) << "the count of touches was too old as well";
  EXPECT_EQ(push(table, {1}, {1}).applied, 1);
  EXPECT_EQ(table.evicted(), 2);
}

TEST(SparseTable, RefusesSizesThatDoNotFit) {
  SparseTable table = make({.width = 3});
  const Keys keys = {1, 2};
  Floats floats(5);
  EXPECT_EQ(complaint(table.pull(keys, floats)),
            "2 keys came with 5 places for weights, but rows have 3 floats each");
  const auto pushed = table.push(keys, floats);
  ASSERT_FALSE(pushed.ok());
  EXPECT_EQ(pushed.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(pushed.error().message(), "2 keys came with 5 gradients, but rows have 3 floats each");
  EXPECT_EQ(table.rows(), 0);
}

TEST(SparseTable, AppliesNothingOfAPushWithAGradientThatIsNoNumber) {
  SparseTable table = make({.width = 2});
  push(table, {1}, {1, 1});
  const Floats before = pull(table, {1, 2, 3});
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto pushed = table.push(Keys{1, 2, 3}, Floats{1, 1, 1, 1, 1, wrong});
    ASSERT_FALSE(pushed.ok());
    EXPECT_EQ(pushed.error().code(), Code::kInvalidArgument);
    EXPECT_TRUE(pushed.error().message().starts_with("the gradient of key 3 is ")) << wrong;
    EXPECT_TRUE(pushed.error().message().ends_with(" at place 1; nothing was applied"));
  }
  EXPECT_EQ(pull(table, {1, 2, 3}), before);
  EXPECT_EQ(table.rows(), 1);
}

TEST(SparseTable, CountsRowsThatDiverge) {
  SparseTable table = make({.optimizer = {.lr = 1e30}});
  EXPECT_EQ(push(table, {1, 2}, {1e30F, 1}).not_finite, 1);
}

TEST(SparseTable, RefusesAConfigurationOutOfRange) {
  const auto refusal = [](const SparseTableConfig& config) {
    return SparseTable::create(config).error().message();
  };
  EXPECT_EQ(refusal({.width = 0}), "the table's width is 0, but must be between 1 and 65536");
  EXPECT_EQ(refusal({.init_scale = -1}),
            "the table's init_scale is -1, but must be 0 or a positive float");
  EXPECT_EQ(refusal({.admit_after = -1}),
            "the table's admit_after is -1, but must be between 0 and 4294967294");
  EXPECT_EQ(refusal({.evict_after = -1}),
            "the table's evict_after is -1, but must be between 0 and 4294967295");
  EXPECT_EQ(refusal({.optimizer = {.lr = -1}}), "optimizer.lr is -1, but must be 0 or more");
}

TEST(SparseTable, StepsDoNotGoBack) {
  SparseTable table = make({});
  ASSERT_TRUE(table.begin_step(5, 0.1).ok());
  EXPECT_EQ(complaint(table.begin_step(4, 0.1)),
            "the table's step is 4, but must be between 5 and 4294967295");
  EXPECT_EQ(complaint(table.begin_step(6, -1)),
            "the learning rate of step 6 is -1, but must be 0 or more");
  EXPECT_EQ(table.step(), 5);
}

// The floats, and at most half as much again, at every moment while the table grows.
TEST(SparseTable, HoldsLittleMoreThanItsFloatsWhileItGrows) {
  constexpr std::size_t kWidth = 16, kBatch = 1000, kRows = 1'000'000;
  SparseTable table = make({.width = kWidth});
  const Floats gradients(kBatch * kWidth, 1.0F);
  double worst = 0;
  for (std::uint64_t begin = 0; begin < kRows; begin += kBatch) {
    Keys keys;
    for (std::uint64_t i = 0; i < kBatch; ++i) keys.push_back(mix64(begin + i));
    push(table, keys, gradients);
    if (begin < kRows / 3) continue;  // Below, a block for each part counts for much.
    const double payload = static_cast<double>(table.rows()) * kWidth * sizeof(float);
    worst = std::max(worst, static_cast<double>(table.bytes()) / payload);
  }
  EXPECT_EQ(table.rows(), static_cast<std::int64_t>(kRows));
  EXPECT_LE(worst, 1.5);
}

}  // namespace
}  // namespace tandem::ps
