// What a master tells of its nodes and jobs to those who ask. Pure functions.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cluster/coordinator.h"
#include "cluster/master_job.h"
#include "cluster/master_metrics.h"
#include "cluster/peers.h"

namespace tandem::cluster {

using MasterJobs = std::map<JobId, std::unique_ptr<MasterJob>>;

// {"nodes": [...]}, as docs/http-api.md has it.
nlohmann::json nodes_json(const Peers& peers, const Coordinator& coordinator);

// For Prometheus, but for the workers that were lost.
ClusterFacts facts_of(const Peers& peers, const Coordinator& coordinator, const MasterJobs& jobs);

}  // namespace tandem::cluster
