// The numbers of a cluster in Prometheus' text format. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "wire/worker.pb.h"

namespace tandem::cluster {

struct ClusterFacts {
  std::int64_t nodes = 0, slots = 0, used_slots = 0;
  std::map<std::string, std::int64_t> jobs;                      // By state.
  std::vector<std::pair<std::string, wire::Progress>> progress;  // Of jobs that run.
  std::uint64_t workers_lost = 0;
  std::uint64_t refused_peers = 0;
};

std::string to_prometheus(const ClusterFacts& facts);

}  // namespace tandem::cluster
