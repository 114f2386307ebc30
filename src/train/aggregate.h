// What a lane's gradient counts in its step (`ps.aggregate`). Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace tandem::train {

enum class Aggregate : std::uint8_t {
  kWeighted,  // As much as the lane has samples: the sum is the mean over all samples.
  kMean,      // The same as any other: the mean of the lanes' means.
  kSum,       // Fully: the sum of the lanes' means.
};

inline Aggregate aggregate_of(std::string_view word) {
  return word == "mean" ? Aggregate::kMean
                        : (word == "sum" ? Aggregate::kSum : Aggregate::kWeighted);
}

// What the mean gradient of a lane's samples is to be multiplied by, so that the lanes' sum is what
// was asked for. REQUIRES: lane_samples > 0.
inline double share_of(Aggregate aggregate, std::int64_t lane_samples, std::int64_t step_samples,
                       std::int64_t lanes) {
  if (aggregate == Aggregate::kSum) return 1;
  if (aggregate == Aggregate::kMean)
    return 1.0 / static_cast<double>(std::min(lanes, step_samples));  // Others are empty.
  return static_cast<double>(lane_samples) / static_cast<double>(step_samples);
}

}  // namespace tandem::train
