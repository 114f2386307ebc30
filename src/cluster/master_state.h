// What a master knows: its jobs, the nodes that are connected, and what its coordinator thinks of
// both. Belongs to the master; those who work on it (cluster/master_actions.h,
// cluster/master_nodes.h) share its thread.
#pragma once

#include <cstdint>
#include <memory>

#include "cluster/checkpoint_search.h"
#include "cluster/coordinator.h"
#include "cluster/master.h"
#include "cluster/master_views.h"
#include "cluster/peers.h"

namespace tandem::cluster {

struct MasterState {
  MasterState(net::Loop& runs_on, MasterConfig with) : loop(runs_on), config(std::move(with)) {}

  net::Loop& loop;
  const MasterConfig config;
  Coordinator coordinator;
  MasterJobs jobs;
  std::uint64_t workers_lost = 0;
  bool shutting_down = false;
  std::unique_ptr<Peers> peers;
  CheckpointSearch search{loop};
};

}  // namespace tandem::cluster
