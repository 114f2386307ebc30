#include "train/lane_tree.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace tandem::train {
namespace {

float value_of(std::int64_t lane) {
  return Rng({7, static_cast<std::uint64_t>(lane)}).normal() * 1e3F;
}

// The tree by its definition: split at the largest power of two below the size.
float sum_by_definition(std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) return value_of(begin);
  std::int64_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return sum_by_definition(begin, begin + half) + sum_by_definition(begin + half, end);
}

TEST(LaneTree, AddsInTheFixedTreeForAnyNumberOfLanes) {
  for (std::int64_t lanes = 1; lanes <= 70; ++lanes) {
    std::vector<float> results[2] = {std::vector<float>(3), std::vector<float>(3)};
    LaneTree tree(lanes, results[0]);
    for (std::vector<float>& result : results) {
      tree.move_to(result);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        for (float& value : tree.next()) value = value_of(lane);
        ASSERT_EQ(tree.is_last(), lane + 1 == lanes);
        if (!tree.is_last()) tree.push();
      }
      tree.push_last(1, 3);  // As backward does: in pieces, from the end.
      tree.push_last(0, 1);
      tree.finish();
      for (float sum : result) EXPECT_EQ(sum, sum_by_definition(0, lanes)) << lanes << " lanes";
    }
  }
}

}  // namespace
}  // namespace tandem::train
