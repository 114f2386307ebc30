#include "data/sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/permutation.h"
#include "data/split.h"
#include "data/testing.h"

namespace tandem::data {
namespace {

bool is_bijection(std::int64_t size, std::uint64_t key) {
  const Permutation order(size, key);
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint32_t value = order(static_cast<std::uint32_t>(i));
    if (value >= size || seen[value]) return false;
    seen[value] = true;
  }
  return true;
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (std::int64_t size = 1; size <= 600; ++size) {
    EXPECT_TRUE(is_bijection(size, 1) && is_bijection(size, 0xfeedULL)) << size;
  }
}

TEST(Permutation, IsABijectionForAnySizeAndKey) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::int64_t>(1, 20000);
    RC_ASSERT(is_bijection(size, *rc::gen::arbitrary<std::uint64_t>()));
  }));
}

TEST(Permutation, StaysInRangeForTheLargestSizes) {
  for (std::int64_t size :
       {(std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, (std::int64_t{1} << 30) + 1}) {
    const Permutation order(size, 7);
    std::set<std::uint32_t> seen;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      EXPECT_LT(order(i), size);
      seen.insert(order(i));
    }
    EXPECT_EQ(seen.size(), 1000U);
  }
}

TEST(Permutation, ReachesAllOrdersAboutEquallyOften) {
  std::map<std::vector<std::uint32_t>, int> orders;
  for (std::uint64_t key = 0; key < 6000; ++key) {
    const Permutation order(3, key);
    ++orders[{order(0), order(1), order(2)}];
  }
  EXPECT_EQ(orders.size(), 6U);
  // 1000 expected, deviation 29: six of them.
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 174);
}

TEST(Permutation, ScattersNeighbours) {
  constexpr std::int64_t kSize = 60000;
  const Permutation order(kSize, 3);
  double sum = 0;
  for (std::uint32_t i = 0; i + 1 < kSize; ++i) {
    sum += std::abs(static_cast<double>(order(i)) - static_cast<double>(order(i + 1)));
  }
  EXPECT_NEAR(sum / (kSize - 1), kSize / 3.0,
              kSize * 0.01);  // The mean distance of two random places.
}

std::vector<std::uint32_t> lane(const Sampler& sampler, std::int64_t epoch, std::int64_t step,
                                std::int64_t number) {
  std::vector<std::uint32_t> indices;
  sampler.lane_indices(epoch, step, number, indices);
  return indices;
}

TEST(Sampler, GivesEverySampleOncePerEpochWhateverTheShape) {
  EXPECT_TRUE(rc::check([] {
    const auto samples = *rc::gen::inRange<std::int64_t>(1, 2000);
    const auto batch = *rc::gen::inRange<std::int64_t>(1, 300);
    const auto lanes = *rc::gen::inRange<std::int64_t>(1, 17);
    const Sampler sampler(samples, batch, lanes, *rc::gen::arbitrary<std::uint64_t>());
    const auto epoch = *rc::gen::inRange<std::int64_t>(0, 1000);
    std::vector<int> seen(static_cast<std::size_t>(samples));
    for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      std::int64_t total = 0;
      std::int64_t least = samples;
      std::int64_t most = 0;
      for (std::int64_t l = 0; l < lanes; ++l) {
        const auto indices = lane(sampler, epoch, step, l);
        for (std::uint32_t index : indices) ++seen.at(index);
        const auto size = static_cast<std::int64_t>(indices.size());
        total += size;
        least = std::min(least, size);
        most = std::max(most, size);
      }
      RC_ASSERT(total == sampler.step_samples(epoch, step));
      RC_ASSERT(most - least <= 1 && most <= sampler.most_lane_samples());
    }
    RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  }));
}

TEST(Sampler, TheGlobalBatchDoesNotDependOnTheLanes) {
  const Sampler one(1000, 64, 1, 5);
  const Sampler four(1000, 64, 4, 5);
  for (std::int64_t step : {0, 7, 15}) {
    std::vector<std::uint32_t> joined;
    for (std::int64_t l = 0; l < 4; ++l) {
      const auto piece = lane(four, 2, step, l);
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(joined, lane(one, 2, step, 0));
  }
}

TEST(Sampler, SeedAndEpochChangeTheOrder) {
  EXPECT_NE(lane(Sampler(1000, 64, 1, 1), 0, 0, 0), lane(Sampler(1000, 64, 1, 2), 0, 0, 0));
  EXPECT_NE(lane(Sampler(1000, 64, 1, 1), 0, 0, 0), lane(Sampler(1000, 64, 1, 1), 1, 0, 0));
  EXPECT_EQ(lane(Sampler(1000, 64, 1, 1), 3, 9, 0), lane(Sampler(1000, 64, 1, 1), 3, 9, 0));
}

TEST(Sampler, TheLastBatchIsShort) {
  const Sampler sampler(10, 4, 3, 1);
  EXPECT_EQ(sampler.steps_per_epoch(), 3);
  EXPECT_EQ(sampler.step_samples(0, 2), 2);
  EXPECT_EQ(
      lane(sampler, 0, 2, 0).size() + lane(sampler, 0, 2, 1).size() + lane(sampler, 0, 2, 2).size(),
      2U);
  EXPECT_EQ(Sampler(3, 100, 1, 1).step_samples(0, 0), 3);
}

// Stored runs and other machines rely on these: a change breaks resuming.
TEST(Sampler, KeepsItsOrderForever) {
  EXPECT_EQ(lane(Sampler(1797, 8, 1, 1), 0, 0, 0),
            (std::vector<std::uint32_t>{1317, 230, 7, 722, 1754, 231, 562, 563}));
}

TEST(Split, CutsByShare) {
  const auto split = split_samples(1000, {0.1, 0.2});
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->test.size(), 200U);
  EXPECT_EQ(split->validation.size(), 80U);
  EXPECT_EQ(split->train.size(), 720U);
  std::vector<std::uint32_t> all = split->train;
  all.insert(all.end(), split->validation.begin(), split->validation.end());
  all.insert(all.end(), split->test.begin(), split->test.end());
  std::sort(all.begin(), all.end());
  std::vector<std::uint32_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(all, expected);
  EXPECT_TRUE(std::is_sorted(split->train.begin(), split->train.end()));
}

TEST(Split, SaysWhatIsWrongWithAShare) {
  EXPECT_TRUE(
      fails(split_samples(10, {0.1, 1}), Code::kInvalidArgument, "data.test = 1 is not a share"));
  EXPECT_TRUE(
      fails(split_samples(10, {-0.1, 0}), Code::kInvalidArgument, "data.validation = -0.1"));
  EXPECT_TRUE(fails(split_samples(2, {0.9, 0.5}), Code::kInvalidArgument,
                    "nothing is left to train on: of 2 samples"));
}

}  // namespace
}  // namespace tandem::data
