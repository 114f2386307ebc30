#include "ps/fifo.h"

#include <gtest/gtest.h>

#include <memory>

namespace tandem::ps {
namespace {

TEST(Fifo, GivesWhatWasPushedInOrder) {
  Fifo<int> queue;
  int pushed = 0, taken = 0;
  // Grows while it wraps around.
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 7; ++i) queue.push_back(pushed++);
    for (std::size_t i = 0; i < queue.size(); ++i) EXPECT_EQ(queue[i], taken + static_cast<int>(i));
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(queue.front(), taken++);
      queue.pop_front();
    }
  }
  EXPECT_EQ(queue.size(), 200U);
  queue.clear();
  EXPECT_TRUE(queue.empty());
}

TEST(Fifo, ErasesInPlace) {
  Fifo<int> queue;
  for (int i = 0; i < 20; ++i) queue.push_back(i);
  for (int i = 0; i < 10; ++i) queue.pop_front();
  for (int i = 20; i < 26; ++i) queue.push_back(i);
  queue.erase_if([](int value) { return value % 2 == 1; });
  ASSERT_EQ(queue.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(queue[i], 10 + 2 * static_cast<int>(i));
}

TEST(Fifo, LetsOthersIn) {
  Fifo<int> queue;
  for (int i = 0; i < 20; ++i) queue.push_back(i);
  for (int i = 0; i < 18; ++i) queue.pop_front();
  queue.insert(0, 1);
  queue.insert(3, 4);
  queue.insert(2, 3);
  std::vector<int> values;
  for (std::size_t i = 0; i < queue.size(); ++i) values.push_back(queue[i]);
  EXPECT_EQ(values, (std::vector<int>{1, 18, 3, 19, 4}));
}

TEST(Fifo, HoldsNothingThatWasTaken) {
  Fifo<std::shared_ptr<int>> queue;
  const auto value = std::make_shared<int>(1);
  queue.push_back(value);
  queue.pop_front();
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace tandem::ps
