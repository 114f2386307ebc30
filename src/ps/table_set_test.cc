#include "ps/table_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace tandem::ps {
namespace {

using Keys = std::vector<std::uint64_t>;

TableSetConfig config_of(KeyShare share) {
  TableSetConfig config;
  config.tables = {{.width = 2,
                    .optimizer = {.kind = optim::OptimizerKind::kAdagrad, .lr = 0.5},
                    .seed = 3,
                    .init_scale = 0.1},
                   {.width = 1, .optimizer = {.kind = optim::OptimizerKind::kAdagrad, .lr = 0.5}}};
  config.keys = {1000, 1000};
  config.share = share;
  return config;
}

std::unique_ptr<TableSet> make(KeyShare share = {}) {
  auto set = TableSet::create(config_of(share));
  EXPECT_TRUE(set.ok());
  return std::move(set).value();
}

void load_nothing(TableSet& set, std::int64_t step) {
  for (std::size_t table = 0; table < 2; ++table)
    EXPECT_TRUE(set.load(step, table, Records::kRows, {}).ok());
  EXPECT_TRUE(set.use(step).ok());
}

void make_step(TableSet& set, const Keys& keys) {
  ASSERT_TRUE(set.begin(0.5).ok());
  ASSERT_TRUE(set.push(0, keys, std::vector<float>(2 * keys.size(), 1)).ok());
  ASSERT_TRUE(set.push(1, keys, std::vector<float>(keys.size(), 1)).ok());
  ASSERT_TRUE(set.commit(0.5).ok());
}

std::vector<float> pull(const TableSet& set, const Keys& keys) {
  std::vector<float> weights(2 * keys.size());
  EXPECT_TRUE(set.pull(0, keys, weights).ok());
  return weights;
}

TEST(TableSet, HasTheStateAfterTheLastStepAndTheOneBefore) {
  const auto set = make();
  EXPECT_FALSE(set->has(0));
  EXPECT_EQ(set->use(0).error().code(), Code::kNotFound);
  load_nothing(*set, 7);
  EXPECT_TRUE(set->has(7));
  EXPECT_FALSE(set->has(6));
  const std::vector<float> first = pull(*set, {1, 2, 3});
  make_step(*set, {1, 2});
  const std::vector<float> second = pull(*set, {1, 2, 3});
  EXPECT_NE(first, second);
  EXPECT_TRUE(set->has(8) && set->has(7));
  make_step(*set, {2, 3});
  EXPECT_EQ(set->step(), 9);
  EXPECT_FALSE(set->has(7));
  ASSERT_TRUE(set->use(8).ok());
  EXPECT_EQ(set->step(), 8);
  EXPECT_EQ(pull(*set, {1, 2, 3}), second);
  EXPECT_FALSE(set->has(9) || set->has(7));
  make_step(*set, {2, 3});
  EXPECT_EQ(set->step(), 9);
}

TEST(TableSet, AStepThatCannotBeginTakesBackNothing) {
  const auto set = make();
  load_nothing(*set, 0);
  make_step(*set, {1, 2});
  std::vector<float> before(3), after(3);
  ASSERT_TRUE(set->pull(1, Keys{1, 2, 3}, before).ok());
  EXPECT_FALSE(set->begin(std::numeric_limits<double>::quiet_NaN()).ok());
  ASSERT_TRUE(set->roll_back().ok());
  ASSERT_TRUE(set->pull(1, Keys{1, 2, 3}, after).ok());
  EXPECT_EQ(before, after) << "of the second table, too";
  make_step(*set, {1, 2});
}

TEST(TableSet, AStepThatFailsIsDropped) {
  const auto set = make();
  load_nothing(*set, 0);
  make_step(*set, {1, 2});
  const std::vector<float> before = pull(*set, {1, 2, 3});
  ASSERT_TRUE(set->begin(0.5).ok());
  ASSERT_TRUE(set->push(0, Keys{1, 3}, std::vector<float>(4, 1)).ok());
  ASSERT_TRUE(set->roll_back().ok());
  EXPECT_EQ(set->step(), 1);
  EXPECT_TRUE(set->has(1));
  EXPECT_EQ(pull(*set, {1, 2, 3}), before);
}

TEST(TableSet, ASumThatIsNoNumberIsADivergence) {
  const auto set = make();
  load_nothing(*set, 0);
  ASSERT_TRUE(set->begin(0.5).ok());
  const auto updated = set->push(1, Keys{1}, std::vector<float>{1.0F / 0.0F});
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ(*updated, optim::Updated::kNotFinite);
}

// What two servers hold goes to three.
TEST(TableSet, IsFetchedInTheOrderOfKeysAndLoadedIntoOthers) {
  constexpr std::size_t kFrom = 2, kTo = 3;
  std::vector<std::unique_ptr<TableSet>> from, to;
  Keys all(1000);
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < kFrom; ++i) {
    from.push_back(make({i, kFrom}));
    load_nothing(*from[i], 4);
    Keys own;
    std::copy_if(all.begin(), all.end(), std::back_inserter(own), [&](std::uint64_t key) {
      return key % 3 == 0 && KeyShare{i, kFrom}.holds(key);
    });
    EXPECT_GT(own.size(), 100U);
    make_step(*from[i], own);
  }
  for (std::size_t i = 0; i < kTo; ++i) {
    to.push_back(make({i, kTo}));
    EXPECT_TRUE(to[i]->load(5, 1, Records::kRows, {}).ok());
  }
  std::size_t rows = 0;
  for (const auto& source : from) {
    for (std::uint64_t table = 0; table < 2; ++table) {
      const auto fetched = source->fetch(table, 0, 0);
      ASSERT_TRUE(fetched.ok());
      const std::size_t bytes = source->tables()[table].record_bytes(Records::kRows);
      EXPECT_EQ(fetched->records.size(), fetched->all * bytes);
      rows += fetched->all;
      for (std::size_t at = 0; at < fetched->records.size(); at += bytes) {
        std::uint64_t key;
        std::memcpy(&key, fetched->records.data() + at, sizeof key);
        const auto record = std::as_bytes(std::span(fetched->records)).subspan(at, bytes);
        EXPECT_TRUE(to[KeyShare::owner(key, kTo)]->load(5, table, Records::kRows, record).ok());
      }
    }
  }
  EXPECT_EQ(rows, 2 * 334U);
  for (const auto& set : to) ASSERT_TRUE(set->use(5).ok());
  for (const std::uint64_t key : all) {
    EXPECT_EQ(pull(*to[KeyShare::owner(key, kTo)], {key}),
              pull(*from[KeyShare::owner(key, kFrom)], {key}));
  }
}

TEST(TableSet, WhatIsNotItsOwnIsRefused) {
  const auto set = make({0, 2});
  std::uint64_t other = 0;
  while (KeyShare{0, 2}.holds(other)) ++other;
  const auto why = [&](std::uint64_t key, std::size_t table) {
    std::string record(set->tables()[0].record_bytes(Records::kRows), '\0');
    std::memcpy(record.data(), &key, sizeof key);
    record[8] = 1;
    const Status loaded = set->load(3, table, Records::kRows, std::as_bytes(std::span(record)));
    return loaded.ok() ? "" : loaded.error().message();
  };
  EXPECT_NE(why(other, 0).find("is not on this server"), std::string::npos);
  EXPECT_NE(why(5000, 0).find("key 5000 of table 0, which has 1000"), std::string::npos);
  EXPECT_NE(why(0, 2).find("there is no table 2"), std::string::npos);
  EXPECT_FALSE(set->has(3));
  EXPECT_FALSE(set->load(-1, 0, Records::kRows, {}).ok());
  load_nothing(*set, 3);
  EXPECT_FALSE(set->fetch(2, 0, 0).ok());
  EXPECT_FALSE(set->fetch(0, 2, 0).ok());
  EXPECT_FALSE(set->fetch(0, 0, 1).ok());
}

TEST(TableSet, OthersOfTheSameKindGoOn) {
  EXPECT_TRUE(is_same_set(config_of({0, 2}), config_of({0, 2})));
  EXPECT_FALSE(is_same_set(config_of({0, 2}), config_of({1, 2})));
  EXPECT_FALSE(is_same_set(config_of({0, 2}), config_of({0, 3})));
  TableSetConfig other = config_of({0, 2});
  other.tables[1].optimizer.lr = 0.1;  // Comes with every step.
  EXPECT_TRUE(is_same_set(config_of({0, 2}), other));
  other.tables[1].evict_after = 9;
  EXPECT_FALSE(is_same_set(config_of({0, 2}), other));
}

TEST(TableSet, ItsChecksumIsOfWhatItHoldsNotOfHowItCameAbout) {
  const auto one = make(), other = make();
  load_nothing(*one, 0);
  load_nothing(*other, 0);
  EXPECT_EQ(one->checksum(), other->checksum());
  Keys keys(500);
  std::iota(keys.begin(), keys.end(), 7);
  make_step(*one, keys);
  EXPECT_NE(one->checksum(), other->checksum());
  std::reverse(keys.begin(), keys.end());
  make_step(*other, keys);
  EXPECT_EQ(one->checksum(), other->checksum());
  make_step(*one, {8});
  make_step(*other, {9});
  EXPECT_NE(one->checksum(), other->checksum());
}

// Where workers do not wait for each other.
Result<optim::Updated> arrive(TableSet& set, std::int64_t steps_done, const Keys& keys) {
  return set.arrive(steps_done, 0.5, [&](TableSet& tables) {
    return tables.push(1, keys, std::vector<float>(keys.size(), 1));
  });
}

TEST(TableSet, TasksChangeItInPlaceAndInAnyOrder) {
  TableSetConfig config = config_of({});
  for (SparseTableConfig& table : config.tables) table.evict_after = 3;
  auto made = TableSet::create(config);
  ASSERT_TRUE(made.ok());
  TableSet& set = **made;
  load_nothing(set, 4);
  ASSERT_TRUE(arrive(set, 6, {1}).ok());
  ASSERT_TRUE(arrive(set, 4, {2}).ok());  // Stands at step 7 all the same.
  EXPECT_EQ(set.step(), 4);
  EXPECT_EQ(set.tables()[1].step(), 7);
  ASSERT_TRUE(set.stand_after(7).ok());
  EXPECT_TRUE(set.has(7));
  EXPECT_FALSE(set.has(6)) << "tasks are not taken back";
  EXPECT_EQ(set.tables()[1].rows(), 2);
  // Rows grow old with the step of the task that pulls.
  ASSERT_TRUE(set.look(8).ok());
  EXPECT_EQ(set.tables()[1].keys(Records::kRows).size(), 2);
  ASSERT_TRUE(set.look(9).ok());
  EXPECT_TRUE(set.tables()[1].keys(Records::kRows).empty());
}

// Nobody should, but a peer's message must not end the server.
TEST(TableSet, APullThatMakesRowsOldWhileTheyAreFetched) {
  TableSetConfig config = config_of({});
  for (SparseTableConfig& table : config.tables) table.evict_after = 3;
  auto made = TableSet::create(config);
  ASSERT_TRUE(made.ok());
  TableSet& set = **made;
  load_nothing(set, 0);
  ASSERT_TRUE(arrive(set, 0, {1, 2, 3}).ok());
  const auto first = set.fetch(1, 0, 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->all, 3U);
  ASSERT_TRUE(set.look(100).ok());
  const auto rest = set.fetch(1, 0, 0);
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->all, 0U);
}

TEST(TableSet, ATaskThatFailsLeavesNothing) {
  const auto set = make();
  load_nothing(*set, 0);
  ASSERT_TRUE(arrive(*set, 0, {1}).ok());
  const auto failed = set->arrive(0, 0.5, [&](TableSet& tables) -> Result<optim::Updated> {
    EXPECT_TRUE(tables.push(1, Keys{1, 2}, std::vector<float>{1, 1}).ok());
    return Error(Code::kOutOfSpace, "full");
  });
  EXPECT_EQ(failed.error().code(), Code::kOutOfSpace);
  EXPECT_EQ(set->tables()[1].rows(), 1);
  std::vector<float> weight(1), expected(1);
  ASSERT_TRUE(set->pull(1, Keys{1}, weight).ok());
  const auto other = make();
  load_nothing(*other, 0);
  ASSERT_TRUE(arrive(*other, 0, {1}).ok());
  ASSERT_TRUE(other->pull(1, Keys{1}, expected).ok());
  EXPECT_EQ(weight, expected);
}

}  // namespace
}  // namespace tandem::ps
