#include "data/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/limits.h"
#include "data/permutation.h"

namespace tandem::data {
namespace {

// Changing it would change every split, and so every published accuracy.
constexpr std::uint64_t kSplitKey = 0x74616e64656d;  // "tandem"

Status check_share(std::string_view name, double share) {
  if (share >= 0 && share < 1) return {};
  return Error(
      Code::kInvalidArgument,
      fmt::format("data.{} = {} is not a share; it must be at least 0 and below 1", name, share));
}

std::int64_t share_of(std::int64_t samples, double share) {
  return std::llround(static_cast<double>(samples) * share);
}

}  // namespace

Result<Counts> count_parts(std::int64_t samples, Shares shares) {
  TANDEM_TRY(check_share("test", shares.test));
  TANDEM_TRY(check_share("validation", shares.validation));
  if (samples > kMostSamples) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} samples are too many; {} are possible", samples, kMostSamples));
  }
  Counts counts;
  counts.test = share_of(samples, shares.test);
  counts.validation = share_of(samples - counts.test, shares.validation);
  counts.train = samples - counts.test - counts.validation;
  if (counts.train > 0) return counts;
  return Error(Code::kInvalidArgument, fmt::format("nothing is left to train on: of {} samples, {} "
                                                   "are for test and {} for validation; lower "
                                                   "data.test or data.validation",
                                                   samples, counts.test, counts.validation));
}

Result<Split> split_samples(std::int64_t samples, Shares shares) {
  TANDEM_ASSIGN(const Counts counts, count_parts(samples, shares));
  const Permutation order(samples, kSplitKey);
  Split split;
  for (std::int64_t place = 0; place < samples; ++place) {
    const std::uint32_t sample = order(static_cast<std::uint32_t>(place));
    auto& part = place < counts.test                       ? split.test
                 : place < counts.test + counts.validation ? split.validation
                                                           : split.train;
    part.push_back(sample);
  }
  for (auto* part : {&split.train, &split.validation, &split.test})
    std::sort(part->begin(), part->end());
  return split;
}

}  // namespace tandem::data
