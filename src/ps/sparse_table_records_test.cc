#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ps/sparse_table.h"

namespace tandem::ps {
namespace {

SparseTable make(const SparseTableConfig& config) {
  auto table = SparseTable::create(config);
  EXPECT_TRUE(table.ok());
  return std::move(table).value();
}

std::string snapshot_of(const SparseTable& table) {
  std::string bytes;
  EXPECT_TRUE(table
                  .save([&](std::span<const std::byte> piece) {
                    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                    return Status();
                  })
                  .ok());
  return bytes;
}

const SparseTableConfig kConfig = {
    .width = 3,
    .optimizer = {.kind = optim::OptimizerKind::kAdam, .lr = 0.1},
    .seed = 5,
    .init_scale = 0.5,
    .admit_after = 1,
    .evict_after = 6,
};

// Of a few hundred keys some are touched often and others grow old; now and then one stands twice
// in a push.
void push_some(SparseTable& table, std::uint64_t step) {
  std::vector<std::uint64_t> keys;
  std::vector<float> gradients;
  Rng rng({9, step});
  for (int i = 0; i < 60; ++i) {
    keys.push_back(rng.next() % (i % 2 == 0 ? 20 : 400));
    for (int j = 0; j < 3; ++j) gradients.push_back(rng.uniform() - 0.5F);
  }
  EXPECT_TRUE(table.push(keys, gradients).ok());
}

TEST(SparseTableRecords, AStepThatIsTakenBackLeavesNoTrace) {
  SparseTable table = make(kConfig);
  for (std::int64_t step = 1; step < 40; ++step) {
    const std::string before = snapshot_of(table);
    const std::int64_t evicted = table.evicted();
    table.mark();
    ASSERT_TRUE(table.begin_step(step, 0.1).ok());
    push_some(table, static_cast<std::uint64_t>(step));
    ASSERT_TRUE(table.begin_step(step + 1, 0.1).ok());
    table.sweep(1 << 20);
    const std::string after = snapshot_of(table);
    EXPECT_NE(before, after);
    ASSERT_TRUE(table.can_take_back());
    ASSERT_TRUE(table.take_back().ok());
    EXPECT_EQ(snapshot_of(table), before) << step;
    EXPECT_EQ(table.evicted(), evicted);
    EXPECT_FALSE(table.can_take_back());
    // And made again it is the same.
    table.mark();
    ASSERT_TRUE(table.begin_step(step, 0.1).ok());
    push_some(table, static_cast<std::uint64_t>(step));
    ASSERT_TRUE(table.begin_step(step + 1, 0.1).ok());
    EXPECT_EQ(snapshot_of(table), after) << step;
  }
  EXPECT_GT(table.evicted(), 0);
  EXPECT_GT(table.candidates(), 0);
}

TEST(SparseTableRecords, RecordsMakeTheSameTable) {
  SparseTable table = make(kConfig);
  for (std::int64_t step = 1; step < 20; ++step) {
    ASSERT_TRUE(table.begin_step(step, 0.1).ok());
    push_some(table, static_cast<std::uint64_t>(step));
  }
  SparseTable copy = make(kConfig);
  ASSERT_TRUE(copy.begin_step(table.step(), 0.1).ok());
  for (const Records what : {Records::kRows, Records::kCandidates}) {
    const std::vector<std::uint64_t> keys = table.keys(what);
    EXPECT_FALSE(keys.empty());
    std::string records;
    table.append(what, keys, records);
    EXPECT_EQ(records.size(), keys.size() * table.record_bytes(what));
    ASSERT_TRUE(copy.insert(what, std::as_bytes(std::span(records))).ok());
  }
  EXPECT_EQ(snapshot_of(copy), snapshot_of(table));
}

std::string record(std::uint64_t key, std::uint32_t touched, float word, std::size_t words) {
  std::string bytes(12 + 4 * words, '\0');
  std::memcpy(bytes.data(), &key, 8);
  std::memcpy(bytes.data() + 8, &touched, 4);
  std::memcpy(bytes.data() + 12, &word, 4);
  return bytes;
}

TEST(SparseTableRecords, RecordsThatMakeNoSenseAreNamed) {
  SparseTable table = make(kConfig);
  ASSERT_TRUE(table.begin_step(5, 0.1).ok());
  const std::size_t words = table.row_words();
  const auto why = [&](const std::string& records) {
    const Status inserted = table.insert(Records::kRows, std::as_bytes(std::span(records)));
    return inserted.ok() ? "" : inserted.error().message();
  };
  EXPECT_EQ(why(record(7, 3, 1, words)), "");
  EXPECT_EQ(why(record(7, 3, 1, words)), "key 7 is there twice");
  EXPECT_EQ(why(record(8, 6, 1, words)), "key 8 was touched in step 6");
  EXPECT_EQ(why(record(9, 0, 1, words)), "key 9 was touched in step 0");
  EXPECT_EQ(why(record(10, 1, std::numeric_limits<float>::infinity(), words)),
            "the row of key 10 has inf");
  EXPECT_EQ(why(record(11, 1, 1, words) + "x"), "49 bytes are no records of 48");
}

}  // namespace
}  // namespace tandem::ps
