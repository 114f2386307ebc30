#include "collective/tree.h"

#include <gtest/gtest.h>

namespace tandem::collective {
namespace {

TEST(Tree, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(left_lanes(2), 1);
  EXPECT_EQ(left_lanes(3), 2);
  EXPECT_EQ(left_lanes(4), 2);
  EXPECT_EQ(left_lanes(5), 4);
  EXPECT_EQ(left_lanes(8), 4);
}

TEST(Tree, HostsEveryLaneOnceInOrder) {
  for (std::int64_t lanes = 1; lanes <= 20; ++lanes) {
    for (std::int64_t workers = 1; workers <= lanes; ++workers) {
      std::int64_t next = 0;
      for (std::int64_t worker = 0; worker < workers; ++worker) {
        const LaneRange range = hosted_lanes(lanes, workers, worker);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), lanes / workers);
        EXPECT_LE(range.size(), lanes / workers + 1);
        next = range.end;
      }
      EXPECT_EQ(next, lanes);
    }
  }
}

TEST(Tree, CutsAWorkersLanesIntoMaximalNodes) {
  using Nodes = std::vector<LaneRange>;
  EXPECT_EQ(maximal_nodes(4, {0, 4}), (Nodes{{0, 4}}));
  EXPECT_EQ(maximal_nodes(4, {1, 3}), (Nodes{{1, 2}, {2, 3}}));
  EXPECT_EQ(maximal_nodes(8, {0, 3}), (Nodes{{0, 2}, {2, 3}}));
  EXPECT_EQ(maximal_nodes(6, {4, 6}), (Nodes{{4, 6}}));
  EXPECT_EQ(maximal_nodes(7, {3, 7}), (Nodes{{3, 4}, {4, 7}}));
}

TEST(Tree, OneWorkerForEachLaneHasOnePartialEach) {
  const std::vector<Partial> partials = partials_of(5, 5);
  ASSERT_EQ(partials.size(), 5U);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(partials[static_cast<std::size_t>(i)].worker, i);
    EXPECT_EQ(partials[static_cast<std::size_t>(i)].lanes, (LaneRange{i, i + 1}));
  }
}

}  // namespace
}  // namespace tandem::collective
