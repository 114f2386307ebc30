// Which samples are for training, validation and test when one file holds them all. The split
// depends on the number of samples and the shares only, never on a job's seed, so runs with
// different seeds are judged on the same samples. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace tandem::data {

struct Shares {
  double validation = 0;  // Of what is not test.
  double test = 0;        // Of the whole.
};

struct Counts {
  std::int64_t train = 0;
  std::int64_t validation = 0;
  std::int64_t test = 0;
};

// Shares rounded to whole samples. kInvalidArgument when a share is not in [0, 1) or nothing is
// left to train on.
Result<Counts> count_parts(std::int64_t samples, Shares shares);

struct Split {
  std::vector<std::uint32_t> train, validation, test;  // Each in rising order.
};

// Deals the samples out by a fixed pseudo-random order of their numbers, so that files sorted by
// class still give balanced parts.
Result<Split> split_samples(std::int64_t samples, Shares shares);

}  // namespace tandem::data
