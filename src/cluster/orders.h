// What a master tells its nodes (wire/cluster.proto). Pure functions.
#pragma once

#include "cluster/master_job.h"
#include "wire/cluster.pb.h"

namespace tandem::cluster {

// `serve_at` is for a parameter server: see Peers::serve_at().
wire::MasterMessage order_to_start(const MasterJob& job, int worker, const std::string& serve_at);
wire::MasterMessage order_to_tell(JobId job, int worker, const wire::WorkerMessage& words);
wire::MasterMessage order_to_end(JobId job, int worker, Order order);

}  // namespace tandem::cluster
