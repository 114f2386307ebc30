#include "tandem/group.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "library/agreement.h"
#include "library/testing.h"

namespace tandem::library {
namespace {

using testing::failure_of;
using testing::run_ranks;

TEST(Group, OfOneDoesNothing) {
  Group group;
  std::vector<float> numbers = {1, 2, 3};
  group.all_reduce(numbers);
  group.broadcast(numbers);
  group.all_reduce_async(numbers).wait();
  group.barrier();
  EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.size(), 1);
  EXPECT_EQ(group.engine(), "none");
  const std::span<double> memory = group.allocate<double>(10);
  EXPECT_EQ(std::accumulate(memory.begin(), memory.end(), 0.0), 0);
}

template <typename T>
void check_type(Group group) {
  const auto rank = static_cast<std::size_t>(group.rank());
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<T> numbers(1000, static_cast<T>(rank + 1));
  group.all_reduce(numbers);
  EXPECT_EQ(numbers, std::vector<T>(1000, static_cast<T>(size * (size + 1) / 2)));
  std::vector<T> largest = {static_cast<T>(rank)};
  group.all_reduce(largest, Op::kMax);
  EXPECT_EQ(largest[0], static_cast<T>(size - 1));

  std::vector<T> blocks(size);
  std::iota(blocks.begin(), blocks.end(), T{0});
  std::array<T, 1> mine{};
  group.reduce_scatter(blocks, mine);
  EXPECT_EQ(mine[0], static_cast<T>(rank * size));

  std::vector<T> all(size);
  mine[0] = static_cast<T>(rank * 2);
  group.all_gather(mine, all);
  for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(all[i], static_cast<T>(i * 2));

  for (std::size_t i = 0; i < size; ++i) blocks[i] = static_cast<T>(rank * 10 + i);
  group.all_to_all(blocks, all);
  for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(all[i], static_cast<T>(i * 10 + rank));

  mine[0] = static_cast<T>(rank);
  group.broadcast(mine, 1);
  EXPECT_EQ(mine[0], T{1});

  mine[0] = static_cast<T>(rank + 5);
  std::vector<T> gathered(rank == 1 ? size : 0);
  group.gather(mine, gathered, 1);
  for (std::size_t i = 0; i < gathered.size(); ++i) EXPECT_EQ(gathered[i], static_cast<T>(i + 5));
}

TEST(Group, TakesEveryElementType) {
  run_ranks(3, [](const Group& group) {
    check_type<float>(group);
    check_type<double>(group);
    check_type<std::int32_t>(group);
    check_type<std::int64_t>(group);
    check_type<std::uint8_t>(group);
  });
}

TEST(Group, ReducesItsOwnMemory) {
  run_ranks(2, [](Group group) {
    const std::span<float> memory = group.allocate<float>(100000);
    std::fill(memory.begin(), memory.end(), 0.5F);
    group.all_reduce(memory);
    for (const float value : memory) ASSERT_EQ(value, 1.0F);
  });
}

TEST(Group, RunsCallsInTheOrderInWhichTheyWereMade) {
  run_ranks(2, [](Group group) {
    std::vector<double> number = {static_cast<double>(group.rank())};  // 0 and 1.
    std::vector<Work> works;
    works.push_back(group.all_reduce_async(number));  // 1.
    works.push_back(group.all_reduce_async(number));  // 2.
    works.push_back(group.barrier_async());
    works.push_back(group.broadcast_async(number, 1));  // 2.
    group.all_reduce(number);                           // 4, after all of these.
    for (const Work& work : works) EXPECT_TRUE(work.done());
    EXPECT_EQ(number[0], 4);
    for (const Work& work : works) work.wait();
  });
}

TEST(Group, DoesEveryCallInTheBackground) {
  run_ranks(3, [](Group group) {
    const int rank = group.rank();
    std::vector<int> blocks = {rank, rank + 1, rank + 2}, all(3), exchanged(3), gathered(3);
    std::vector<int> mine(1), own = {rank * 7};
    const Work works[] = {
        group.reduce_scatter_async(blocks, mine), group.all_gather_async(own, all),
        group.all_to_all_async(blocks, exchanged), group.gather_async(own, gathered, 2)};
    for (const Work& work : works) work.wait();
    EXPECT_EQ(mine[0], 3 + 3 * rank);
    EXPECT_EQ(all, (std::vector<int>{0, 7, 14}));
    EXPECT_EQ(exchanged, (std::vector<int>{rank, rank + 1, rank + 2}));
    EXPECT_EQ(gathered, rank == 2 ? (std::vector<int>{0, 7, 14}) : (std::vector<int>{0, 0, 0}));
  });
}

TEST(Group, AddsInARingWhenAsked) {
  run_ranks(3, [](Group group) {
    std::vector<float> numbers(1001, 0.1F * static_cast<float>(group.rank() + 1)), mine(7);
    group.all_reduce(numbers, Op::kSum, Order::kRing);
    for (const float number : numbers) ASSERT_NEAR(number, 0.6, 1e-6);
    std::vector<float> blocks(21, 1.0F);
    group.reduce_scatter_async(blocks, mine, Op::kSum, Order::kRing).wait();
    EXPECT_EQ(mine, std::vector<float>(7, 3.0F));
  });
}

TEST(Group, LetsQueuedCallsEndBeforeItEnds) {
  run_ranks(2, [](Group group) {
    std::vector<float> number = {1};
    Work work;
    {
      Group only = std::move(group);
      work = only.all_reduce_async(number);
    }
    work.wait();
    EXPECT_EQ(number[0], 2);
  });
}

TEST(Group, ThrowsWhenRanksCallDifferentThings) {
  run_ranks(2, [](Group group) {
    std::vector<float> number(group.rank() == 0 ? 4 : 5);
    const Failure failure = failure_of([&] { group.all_reduce(number); });
    EXPECT_EQ(failure.code(), Failure::Code::kInvalidArgument) << failure.what();
    EXPECT_EQ(failure_of([&] { group.barrier_async().wait(); }).code(),
              Failure::Code::kInvalidArgument);
  });
}

TEST(Group, ThrowsWhenAnotherRankIsLate) {
  run_ranks(2,
            [](Group group) {
              if (group.rank() == 1) return;
              const Failure failure = failure_of([&] { group.barrier(); });
              EXPECT_EQ(failure.code(), Failure::Code::kTimeout) << failure.what();
              EXPECT_NE(std::string(failure.what()).find("worker 1"), std::string::npos)
                  << failure.what();
            },
            {.timeout = std::chrono::milliseconds(100)});
}

TEST(Group, RefusesSizesThatDoNotFit) {
  Group group;
  std::vector<float> two(2), three(3);
  EXPECT_EQ(failure_of([&] { group.all_gather(two, three); }).code(),
            Failure::Code::kInvalidArgument);
  EXPECT_EQ(failure_of([&] { group.all_to_all(two, three); }).code(),
            Failure::Code::kInvalidArgument);
  EXPECT_EQ(failure_of([&] { group.broadcast(two, 1); }).code(), Failure::Code::kInvalidArgument);
}

TEST(Group, RefusesAnEngineThatDoesNotExist) {
  const Failure failure = failure_of([] { Group::from_environment({.engine = "pigeon"}); });
  EXPECT_EQ(std::string(failure.what()),
            "there is no engine `pigeon`; there are auto, shm, gloo, mpi");
}

TEST(CallQueue, RefusesCallsWhileItIsHeld) {
  CallQueue queue;
  queue.hold();
  EXPECT_EQ(failure_of([&] { queue.run([] {}); }).code(), Failure::Code::kInvalidArgument);
  EXPECT_EQ(failure_of([&] { queue.start([] {}); }).code(), Failure::Code::kInvalidArgument);
  queue.release();
  queue.run([] {});
}

TEST(Agreement, NamesTheRankThatDiffersFromMost) {
  run_ranks(3, [](Group group) {
    const std::vector<std::string> usual = {"a [2]", "b [3]", "c [4]"};
    demand_agreement(group, usual, "same");
    for (const int odd : {0, 1, 2}) {
      std::vector<std::string> lines = usual;
      if (group.rank() == odd) lines[1] = "b [30]";
      const std::string words =
          failure_of([&] { demand_agreement(group, lines, "models"); }).what();
      EXPECT_EQ(words, "models: rank " + std::to_string(odd) + " has `b [30]` where rank " +
                           (odd == 0 ? "1" : "0") + " has `b [3]`");
    }
    std::vector<std::string> shorter = usual;
    if (group.rank() == 1) shorter.pop_back();
    const std::string words =
        failure_of([&] { demand_agreement(group, shorter, "models"); }).what();
    EXPECT_EQ(words, "models: rank 1 has nothing where rank 0 has `c [4]`");
  });
}

}  // namespace
}  // namespace tandem::library
