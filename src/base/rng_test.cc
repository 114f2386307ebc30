#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace tandem {
namespace {

TEST(Rng, IsAPureFunctionOfItsName) {
  Rng first({1, 2, 3});
  Rng second({1, 2, 3});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.next(), second.next());
}

TEST(Rng, KeepsItsBitsForEver) {
  // Runs made by other versions and machines rely on these.
  Rng rng({1, 2, 3});
  EXPECT_EQ(rng.next(), 0x70eda24ba14cb51cULL);
  EXPECT_EQ(rng.next(), 0x652497ed59e71bc9ULL);
}

TEST(Rng, ReachesAnyPlaceWithoutReplaying) {
  Rng rng({42});
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(rng.next(), Rng({42}).at(i));
}

TEST(Rng, DifferentNamesGiveDifferentSequences) {
  std::set<std::uint64_t> starts;
  for (std::uint64_t a = 0; a < 20; ++a) {
    starts.insert(Rng({a}).at(0));
    for (std::uint64_t b = 0; b < 20; ++b) starts.insert(Rng({a, b}).at(0));
  }
  EXPECT_EQ(starts.size(), 420U);
}

TEST(Rng, UniformFillsTheUnitInterval) {
  Rng rng({7});
  constexpr int kCount = 20000;
  double sum = 0;
  for (int i = 0; i < kCount; ++i) {
    const float value = rng.uniform();
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += static_cast<double>(value);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.01);
}

TEST(Rng, NormalHasMeanZeroAndDeviationOne) {
  Rng rng({8});
  constexpr int kCount = 20000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const auto value = static_cast<double>(rng.normal());
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.03);
  EXPECT_NEAR(squares / kCount, 1.0, 0.03);
}

TEST(Rng, BelowIsEvenAndStaysBelow) {
  Rng rng({9});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(rng.below(7));
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.below(1), 0U);
  for (int i = 0; i < 100; ++i) EXPECT_LT(rng.below(~0ULL), ~0ULL);
}

TEST(RngDeathTest, BelowZeroIsABug) {
  EXPECT_DEATH(Rng({1}).below(0), "check failed");
}

}  // namespace
}  // namespace tandem
