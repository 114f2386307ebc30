#include "ps/crew.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::ps {
namespace {

TEST(Crew, CallsWithEveryNumberOnceHoweverManyHelp) {
  for (const std::size_t helpers : {0, 1, 3}) {
    Crew crew(helpers);
    std::vector<std::atomic<int>> calls(100);
    for (int run = 0; run < 200; ++run) crew.run(20, 90, [&](std::size_t i) { ++calls[i]; });
    for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], i >= 20 && i < 90 ? 200 : 0);
  }
}

TEST(Crew, HelpsOnAnotherThread) {
  Crew crew(1);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  // Neither call ends before the other has begun.
  crew.run(0, 2, [&](std::size_t) {
    const auto count = [&] {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      return threads.size();
    };
    while (count() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(threads.size(), 2U);
}

TEST(Crew, EndsWithoutHavingWorked) {
  Crew crew(2);
  crew.run(5, 5, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace tandem::ps
