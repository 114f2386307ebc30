#include "ps/row_map.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tandem::ps {
namespace {

// By the words of a row: such as lie in small buckets, narrow ones and others.
class RowMapTest : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Words, RowMapTest, testing::Values(1, 2, 3, 16));

Row insert(RowMap& map, std::uint64_t key) {
  const Result<Row> row = map.insert(key, RowMap::hash(key));
  EXPECT_TRUE(row.ok());
  return *row;
}

Row find(const RowMap& map, std::uint64_t key) {
  return map.find(key, RowMap::hash(key));
}

TEST_P(RowMapTest, KeepsEveryRowWhileItGrows) {
  RowMap map(GetParam());
  for (std::uint64_t key = 0; key < 100'000; ++key) {
    const Row row = insert(map, key);
    row.touched() = static_cast<std::uint32_t>(key + 1);
    for (std::size_t i = 0; i < GetParam(); ++i)
      row.words()[i] = static_cast<float>(3 * key) + static_cast<float>(i);
  }
  ASSERT_EQ(map.size(), 100'000U);
  for (std::uint64_t key = 0; key < 100'000; ++key) {
    const Row row = find(map, key);
    ASSERT_TRUE(row) << key;
    ASSERT_EQ(row.key(), key);
    ASSERT_EQ(row.touched(), key + 1);
    for (std::size_t i = 0; i < GetParam(); ++i) {
      ASSERT_EQ(row.words()[i], static_cast<float>(3 * key) + static_cast<float>(i));
    }
  }
  EXPECT_FALSE(find(map, 100'000));
}

TEST_P(RowMapTest, HasNoReservedKeys) {
  RowMap map(GetParam());
  // Also keys whose hash has a lowest byte of 0, the sign of an empty slot.
  std::vector<std::uint64_t> keys = {0, 1, ~std::uint64_t{0}, std::uint64_t{1} << 63};
  for (std::uint64_t key = 2; keys.size() < 50; ++key) {
    if (RowMap::hash(key) % 256 < 2) keys.push_back(key);
  }
  for (const std::uint64_t key : keys) {
    EXPECT_FALSE(find(map, key));
    insert(map, key);
  }
  for (const std::uint64_t key : keys) EXPECT_TRUE(find(map, key)) << key;
}

TEST_P(RowMapTest, FindsTheRestAfterErasing) {
  RowMap map(GetParam());
  for (std::uint64_t key = 0; key < 20'000; ++key) insert(map, key);
  const std::size_t bytes = map.bytes();
  for (std::uint64_t key = 0; key < 20'000; key += 3) map.erase(key, RowMap::hash(key));
  for (std::uint64_t key = 0; key < 20'000; ++key) {
    ASSERT_EQ(static_cast<bool>(find(map, key)), key % 3 != 0) << key;
  }
  for (std::uint64_t key = 0; key < 20'000; key += 3) insert(map, key);
  EXPECT_EQ(map.bytes(), bytes) << "erased slots are used again";
}

TEST_P(RowMapTest, FindsManyAtOnceAsOneByOne) {
  RowMap map(GetParam());
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < 30'000; ++key) {
    if (key % 2 == 0) insert(map, key);
    keys.push_back(key * 7 % 30'000);
  }
  for (const std::size_t count : {0U, 1U, 15U, 16U, 63U, 64U, 65U, 30'000U}) {
    std::size_t calls = 0;
    map.find_each(std::span(keys).first(count), [&](std::size_t i, std::uint64_t hash, Row row) {
      EXPECT_EQ(i, calls++);
      EXPECT_EQ(hash, RowMap::hash(keys[i]));
      EXPECT_EQ(static_cast<bool>(row), keys[i] % 2 == 0);
      EXPECT_TRUE(!row || row.key() == keys[i]);
      return true;
    });
    EXPECT_EQ(calls, count);
  }
}

TEST_P(RowMapTest, MayChangeWhileManyAreSought) {
  // Every key is inserted when it is first met and erased when it is met again.
  RowMap map(GetParam());
  std::set<std::uint64_t> present;
  std::vector<std::uint64_t> keys;
  Rng rng({5});
  for (int i = 0; i < 60'000; ++i) keys.push_back(rng.below(20'000) * (i % 4 == 0 ? 1 : 3));
  map.find_each(keys, [&](std::size_t i, std::uint64_t hash, Row row) {
    EXPECT_EQ(static_cast<bool>(row), present.contains(keys[i])) << "place " << i;
    if (row) {
      EXPECT_EQ(row.key(), keys[i]);
      map.erase(keys[i], hash);
      present.erase(keys[i]);
    } else {
      insert(map, keys[i]);
      present.insert(keys[i]);
    }
    return !testing::Test::HasFailure();
  });
  EXPECT_EQ(map.size(), present.size());
}

TEST_P(RowMapTest, VisitsEveryRowOnce) {
  RowMap map(GetParam());
  for (std::uint64_t key = 0; key < 5'000; ++key) insert(map, key);
  std::set<std::uint64_t> seen;
  map.for_each([&](const Row& row) { EXPECT_TRUE(seen.insert(row.key()).second); });
  EXPECT_EQ(seen.size(), 5'000U);
}

TEST_P(RowMapTest, SweepsAPartOfTheSlotsInACall) {
  RowMap map(GetParam());
  for (std::uint64_t key = 0; key < 5'000; ++key) insert(map, key);
  std::size_t looked_at = 0, erased = 0, calls = 0;
  for (std::size_t slots = 0; slots < map.capacity(); slots += 150, ++calls) {
    const std::size_t before = looked_at;
    erased += map.sweep(150, [&](const Row& row) {
      ++looked_at;
      return row.key() % 2 == 0;
    });
    EXPECT_LE(looked_at - before, 150U);
  }
  EXPECT_GT(calls, 10U);
  EXPECT_GE(looked_at, 5'000U);
  EXPECT_EQ(erased, 2'500U);
  EXPECT_EQ(map.size(), 2'500U);
  for (std::uint64_t key = 0; key < 5'000; ++key) {
    ASSERT_EQ(static_cast<bool>(find(map, key)), key % 2 == 1);
  }
}

}  // namespace
}  // namespace tandem::ps
