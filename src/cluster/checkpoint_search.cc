#include "cluster/checkpoint_search.h"

#include <utility>

namespace tandem::cluster {

void CheckpointSearch::begin(JobId job, const RunDirectory& directory, Look look, Found found) {
  const std::uint64_t number = next_++;
  latest_[job] = number;
  errands_.run([this, job, number, directory, look = std::move(look), found = std::move(found)] {
    // A full disk is told of by whoever begins the job.
    [[maybe_unused]] const Status shut_out = shut_out_workers(directory);
    return [this, job, number, found, point = look(directory)] {
      const auto latest = latest_.find(job);
      if (latest == latest_.end() || latest->second != number)
        return found(Error(Code::kCancelled, "it was cancelled while its checkpoints were read"));
      latest_.erase(latest);
      found(point);
    };
  });
}

}  // namespace tandem::cluster
