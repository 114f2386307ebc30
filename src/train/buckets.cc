#include "train/buckets.h"

#include <algorithm>

namespace tandem::train {
namespace {

// Measured with 670,000 parameters and 2 workers on shared memory: from 64 KiB to 64 MiB a step
// takes the same time within noise. Between hosts small ones cost messages and large ones leave
// more to do after backward.
constexpr std::int64_t kUsualBytes = 1 << 20;

}  // namespace

std::vector<collective::Bucket> make_buckets(std::size_t gradients, std::size_t floats,
                                             std::int64_t bytes) {
  const auto each = static_cast<std::size_t>(std::max<std::int64_t>(
      1, (bytes > 0 ? bytes : kUsualBytes) / static_cast<std::int64_t>(sizeof(float))));
  std::vector<collective::Bucket> buckets;
  for (std::size_t end = gradients; end > 0;) {
    const std::size_t begin = end > each ? end - each : 0;
    buckets.push_back({begin, end});
    end = begin;
  }
  buckets.push_back({gradients, floats});
  return buckets;
}

}  // namespace tandem::train
