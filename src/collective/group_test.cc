#include "collective/group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "base/rng.h"
#include "collective/testing.h"

namespace tandem::collective {
namespace {

using testing::run_shm_ranks;
using testing::soon;

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>) return Type::kFloat32;
  if constexpr (std::is_same_v<T, double>) return Type::kFloat64;
  if constexpr (std::is_same_v<T, std::int32_t>) return Type::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Type::kInt64;
  return Type::kUint8;
}

template <typename T>
T number(int rank, std::size_t index) {
  return static_cast<T>((index * 7 + static_cast<std::size_t>(rank) * 13) % 29);
}

// Small whole numbers, so that every order of additions is exact.
template <typename T>
void check_all_reduce(Group& group, std::size_t count, Op op, Order order, std::span<T> data) {
  for (std::size_t i = 0; i < count; ++i) data[i] = number<T>(group.rank(), i);
  const Status status = group.all_reduce({data.data(), count, type_of<T>()}, op, order, soon());
  ASSERT_TRUE(status.ok()) << status.error().message();
  for (std::size_t i = 0; i < count; ++i) {
    T expected = number<T>(0, i);
    for (int rank = 1; rank < group.size(); ++rank) {
      const T next = number<T>(rank, i);
      expected = op == Op::kSum   ? static_cast<T>(expected + next)
                 : op == Op::kMin ? std::min(expected, next)
                                  : std::max(expected, next);
    }
    ASSERT_EQ(data[i], expected) << "rank " << group.rank() << " of " << group.size() << ", "
                                 << count << " elements, at " << i;
  }
}

template <typename T>
void check_type(Group& group) {
  for (const std::size_t count : {0UL, 1UL, 3UL, 1023UL, 4097UL, 70001UL}) {
    std::vector<T> own(count);
    for (const Order order : {Order::kOrdered, Order::kRing}) {
      for (const Op op : {Op::kSum, Op::kMin, Op::kMax})
        check_all_reduce<T>(group, count, op, order, own);
    }
  }
}

TEST(Group, AllReducesEveryTypeSizeAndOperation) {
  for (int size = 1; size <= 8; ++size) {
    run_shm_ranks(size, [](Group& group) {
      check_type<float>(group);
      check_type<double>(group);
      check_type<std::int32_t>(group);
      check_type<std::int64_t>(group);
      check_type<std::uint8_t>(group);
    });
  }
}

// Numbers whose sum depends on the order.
float rough(int rank, std::size_t index) {
  Rng rng({static_cast<std::uint64_t>(rank), index});
  return rng.normal() * 1000;
}

TEST(Group, ARingAgreesWithTheOrderedSumButNotInEveryBit) {
  for (int size = 1; size <= 8; ++size) {
    run_shm_ranks(size, [](Group& group) {
      std::size_t different = 0;
      for (const std::size_t count : {0UL, 1UL, 777UL, 40001UL}) {
        std::vector<float> ordered(count), ring;
        for (std::size_t i = 0; i < count; ++i) ordered[i] = rough(group.rank(), i);
        ring = ordered;
        ASSERT_TRUE(group.all_reduce(ordered, soon()).ok());
        ASSERT_TRUE(
            group.all_reduce({ring.data(), count, Type::kFloat32}, Op::kSum, Order::kRing, soon())
                .ok());
        for (std::size_t i = 0; i < count; ++i) {
          double exact = 0, size_of_terms = 0;
          for (int rank = 0; rank < group.size(); ++rank) {
            exact += rough(rank, i);
            size_of_terms += std::abs(rough(rank, i));
          }
          ASSERT_NEAR(ordered[i], exact, size_of_terms * 1e-6);
          ASSERT_NEAR(ring[i], exact, size_of_terms * 1e-6);
          if (ring[i] != ordered[i]) ++different;
        }
      }
      EXPECT_EQ(different > 0, group.size() > 2);
    });
  }
}

TEST(Group, ReducesSharedMemoryInPlace) {
  for (int size = 2; size <= 5; ++size) {
    run_shm_ranks(size, [](Group& group) {
      constexpr std::size_t kMost = 300007;
      auto memory = group.allocate(kMost * sizeof(float), soon());
      ASSERT_TRUE(memory.ok()) << memory.error().message();
      const std::span<float> data(reinterpret_cast<float*>(memory->data()), kMost);
      for (const std::size_t count : {0UL, 1UL, 4096UL, 4099UL, kMost}) {
        check_all_reduce<float>(group, count, Op::kSum, Order::kOrdered, data);
        check_all_reduce<float>(group, count, Op::kMax, Order::kRing, data);
      }
    });
  }
}

TEST(Group, MovesBytesAsEachOperationSays) {
  for (int size = 1; size <= 6; ++size) {
    for (const std::size_t count : {0UL, 1UL, 777UL, 300000UL}) {
      run_shm_ranks(size, [count](Group& group) {
        const auto ranks = static_cast<std::size_t>(group.size());
        const auto value = [](int from, int to) { return std::byte(from * 16 + to); };
        std::vector<std::byte> blocks(count * ranks), all(count * ranks);
        for (std::size_t i = 0; i < blocks.size(); ++i)
          blocks[i] = value(group.rank(), static_cast<int>(i / std::max<std::size_t>(count, 1)));
        ASSERT_TRUE(group.all_to_all(blocks, all, soon()).ok());
        for (std::size_t i = 0; i < all.size(); ++i)
          ASSERT_EQ(all[i], value(static_cast<int>(i / count), group.rank()));
        const std::vector<std::byte> mine(count, value(group.rank(), 0));
        ASSERT_TRUE(group.all_gather(mine, all, soon()).ok());
        for (std::size_t i = 0; i < all.size(); ++i)
          ASSERT_EQ(all[i], value(static_cast<int>(i / count), 0));
        const int root = group.size() - 1;
        std::vector<std::byte> gathered(group.rank() == root ? count * ranks : 0);
        ASSERT_TRUE(group.gather(mine, gathered, root, soon()).ok());
        for (std::size_t i = 0; i < gathered.size(); ++i)
          ASSERT_EQ(gathered[i], value(static_cast<int>(i / count), 0));
        std::vector<std::byte> news(count, value(group.rank(), 5));
        ASSERT_TRUE(group.broadcast(news, root, soon()).ok());
        for (const std::byte b : news) ASSERT_EQ(b, value(root, 5));
        std::vector<std::int32_t> numbers(count * ranks), sum(count);
        for (std::size_t i = 0; i < numbers.size(); ++i)
          numbers[i] = static_cast<std::int32_t>(i) + group.rank();
        ASSERT_TRUE(group
                        .reduce_scatter({numbers.data(), numbers.size(), Type::kInt32},
                                        std::as_writable_bytes(std::span(sum)), Op::kSum,
                                        Order::kOrdered, soon())
                        .ok());
        for (std::size_t i = 0; i < count; ++i) {
          const auto at =
              static_cast<std::int32_t>(i + count * static_cast<std::size_t>(group.rank()));
          ASSERT_EQ(sum[i], at * group.size() + group.size() * (group.size() - 1) / 2);
        }
        ASSERT_TRUE(group.barrier(soon()).ok());
      });
    }
  }
}

// One rank of three does something else; all must hear that it was this one.
void expect_blame(const std::function<Status(Group&)>& usual,
                  const std::function<Status(Group&)>& other) {
  run_shm_ranks(3, [&](Group& group) {
    const Status status = group.rank() == 1 ? other(group) : usual(group);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument) << status.error().message();
    EXPECT_EQ(status.error().message().find("worker 1 (pid"), 0U) << status.error().message();
    EXPECT_FALSE(group.barrier(soon()).ok());
  });
}

Status sum(Group& group, std::size_t count) {
  std::vector<float> values(count);
  return group.all_reduce(values, soon());
}

TEST(Group, RanksThatWaitForOneThatLeavesAreToldAtOnce) {
  run_shm_ranks(3, [](Group& group) {
    ASSERT_TRUE(group.barrier(soon()).ok());
    if (group.rank() == 1) return group.give_up(Code::kPeerLost);
    const Status met = group.barrier(deadline_after(std::chrono::minutes(10)));
    ASSERT_FALSE(met.ok());
    EXPECT_EQ(met.error().code(), Code::kPeerLost);
    EXPECT_NE(met.error().message().find("worker 1"), std::string::npos) << met.error().message();
  });
}

TEST(Group, BlamesTheRankThatPassesAnotherSize) {
  expect_blame([](Group& g) { return sum(g, 100); }, [](Group& g) { return sum(g, 101); });
  expect_blame([](Group& g) { return sum(g, 100000); }, [](Group& g) { return sum(g, 100001); });
  expect_blame([](Group& g) { return sum(g, 10); }, [](Group& g) { return sum(g, 100000); });
}

TEST(Group, BlamesTheRankThatCallsSomethingElse) {
  expect_blame([](Group& g) { return sum(g, 100); }, [](Group& g) { return g.barrier(soon()); });
  expect_blame([](Group& g) { return g.barrier(soon()); },
               [](Group& g) {
                 std::vector<std::byte> bytes(8);
                 return g.broadcast(bytes, 0, soon());
               });
}

}  // namespace
}  // namespace tandem::collective
