#include "cluster/checkpoint_search.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace tandem::cluster {
namespace {

// What a damaged checkpoint may bring about, such as a lack of memory, must not end the master.
Result<ResumePoint> look_or_fail(const CheckpointSearch::Look& look,
                                 const RunDirectory& directory) {
  try {
    return look(directory);
  } catch (const std::exception& failure) {
    return Error(Code::kInternal, fmt::format("cannot read the checkpoints in {}: {}",
                                              directory.path().string(), failure.what()));
  }
}

}  // namespace

void CheckpointSearch::begin(JobId job, const RunDirectory& directory, Look look, Found found) {
  const std::uint64_t number = next_++;
  latest_[job] = number;
  errands_.run([this, job, number, directory, look = std::move(look), found = std::move(found)] {
    // A full disk is told of by whoever begins the job.
    [[maybe_unused]] const Status shut_out = shut_out_workers(directory);
    return [this, job, number, found, point = look_or_fail(look, directory)] {
      const auto latest = latest_.find(job);
      if (latest == latest_.end() || latest->second != number)
        return found(Error(Code::kCancelled, "it was cancelled while its checkpoints were read"));
      latest_.erase(latest);
      found(point);
    };
  });
}

}  // namespace tandem::cluster
