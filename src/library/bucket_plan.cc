#include "library/bucket_plan.h"

#include "base/check.h"

namespace tandem::library {

BucketPlan plan_buckets(std::span<const std::size_t> floats, BucketSizes sizes, int ranks) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  TANDEM_CHECK(!floats.empty());
  BucketPlan plan;
  plan.reduce.lanes = ranks;
  std::vector<collective::Bucket>& buckets = plan.reduce.buckets;
  std::size_t end = 0;
  for (std::size_t count : floats) {
    const std::size_t limit = buckets.size() <= 1 ? sizes.first_bytes : sizes.other_bytes;
    const bool full = !buckets.empty() && (end - buckets.back().begin) * sizeof(float) >= limit;
    if (buckets.empty() || full) buckets.push_back({end, end});
    plan.offsets.push_back(end);
    plan.bucket.push_back(buckets.size() - 1);
    end += (count + kLine - 1) / kLine * kLine;
    buckets.back().end = end;
  }
  plan.reduce.floats = end;
  return plan;
}

}  // namespace tandem::library
