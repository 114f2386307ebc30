#include "library/bucket_plan.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem::library {
namespace {

TEST(BucketPlan, StartsEveryTensorOnACacheLine) {
  const std::array<std::size_t, 4> floats = {1, 17, 0, 16};
  const BucketPlan plan = plan_buckets(floats, {1 << 20, 1 << 20}, 3);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 16, 48, 48}));
  EXPECT_EQ(plan.reduce.floats, 64U);
  EXPECT_EQ(plan.reduce.lanes, 3);
  EXPECT_EQ(plan.reduce.buckets.size(), 1U);
}

TEST(BucketPlan, ClosesABucketThatHasItsSizeAndCoversTheVector) {
  const std::array<std::size_t, 6> floats = {16, 16, 16, 16, 16, 64};
  const BucketPlan plan = plan_buckets(floats, {64, 128}, 2);
  EXPECT_EQ(plan.bucket, (std::vector<std::size_t>{0, 1, 1, 2, 2, 3}));
  std::size_t end = 0;
  for (const collective::Bucket& bucket : plan.reduce.buckets) {
    EXPECT_EQ(bucket.begin, end);
    end = bucket.end;
  }
  EXPECT_EQ(end, plan.reduce.floats);
}

}  // namespace
}  // namespace tandem::library
