#include "cluster/lane_shares.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::cluster {

std::vector<std::int64_t> fair_shares(std::int64_t lanes, std::span<const double> lane_seconds) {
  TANDEM_CHECK(!lane_seconds.empty() && std::ssize(lane_seconds) <= lanes);
  std::vector<std::int64_t> counts(lane_seconds.size(), 1);
  // Each further lane goes to whoever is ready first with it: no other way is better.
  for (auto left = lanes - std::ssize(lane_seconds); left > 0; --left) {
    std::size_t best = 0;
    const auto ready = [&](std::size_t worker) {
      return static_cast<double>(counts[worker] + 1) * lane_seconds[worker];
    };
    for (std::size_t worker = 1; worker < counts.size(); ++worker) {
      if (ready(worker) < ready(best)) best = worker;
    }
    ++counts[best];
  }
  for (std::size_t worker = 1; worker < counts.size(); ++worker)
    counts[worker] += counts[worker - 1];
  return counts;
}

double step_seconds(std::span<const std::int64_t> ends, std::span<const double> lane_seconds) {
  TANDEM_CHECK(ends.size() == lane_seconds.size());
  double slowest = 0;
  std::int64_t begin = 0;
  for (std::size_t worker = 0; worker < ends.size(); ++worker) {
    slowest = std::max(slowest, static_cast<double>(ends[worker] - begin) * lane_seconds[worker]);
    begin = ends[worker];
  }
  return slowest;
}

}  // namespace tandem::cluster
