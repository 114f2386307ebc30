// How workers of different speed share lanes. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::cluster {

// Where each worker's lanes end so that the slowest is ready as early as can be; every worker has
// at least one lane. REQUIRES: as many seconds a lane, all above 0, as workers; not more than
// lanes.
std::vector<std::int64_t> fair_shares(std::int64_t lanes, std::span<const double> lane_seconds);

// When the slowest is ready.
double step_seconds(std::span<const std::int64_t> ends, std::span<const double> lane_seconds);

}  // namespace tandem::cluster
