#include "ps/key_order.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tandem::ps {
namespace {

std::vector<std::uint64_t> random_keys(std::size_t count) {
  const Rng rng({3});
  std::vector<std::uint64_t> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = rng.at(i) >> 20;
  return keys;
}

TEST(KeyOrder, GivesAllInOrderPartByPart) {
  for (const std::size_t count : {0U, 1U, 65'536U, 65'537U, 300'000U}) {
    std::vector<std::uint64_t> all = random_keys(count), got;
    KeyOrder order(all);
    ASSERT_EQ(order.size(), count);
    while (got.size() < count) {
      const auto some = order.get(got.size(), std::min<std::size_t>(7'001, count - got.size()));
      got.insert(got.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(got, all) << count;
  }
}

TEST(KeyOrder, GivesThoseInTheMiddleFirstAndThenThoseBefore) {
  std::vector<std::uint64_t> all = random_keys(200'000);
  KeyOrder order(all);
  std::sort(all.begin(), all.end());
  for (const std::size_t from : {150'000U, 10U, 199'990U, 70'000U})
    EXPECT_TRUE(std::ranges::equal(order.get(from, 10), std::span(all).subspan(from, 10)));
  EXPECT_TRUE(order.get(200'000, 0).empty());
}

}  // namespace
}  // namespace tandem::ps
