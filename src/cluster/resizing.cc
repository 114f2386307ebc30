#include "cluster/resizing.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::cluster {

Status check_resizing(const std::string& id, const job::Job& job, const Resizing& wanted) {
  const std::int64_t fewest = std::max<std::int64_t>(1, job.cluster.min_workers);
  if (wanted.workers && (*wanted.workers < fewest || *wanted.workers > job.lanes())) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} workers: {} has {} lanes and needs {} workers, so it can have "
                             "{} to {}",
                             *wanted.workers, id, job.lanes(), fewest, fewest, job.lanes()));
  }
  if (!wanted.servers) return {};
  if (!job.has_servers()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} has no parameter servers: its cluster.strategy is \"{}\"", id,
                             job.cluster.strategy));
  }
  if (*wanted.servers < job.cluster.replicas) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} servers: {} has {} copies of each slice, and each needs a server "
                             "of its own",
                             *wanted.servers, id, job.cluster.replicas));
  }
  return {};
}

}  // namespace tandem::cluster
