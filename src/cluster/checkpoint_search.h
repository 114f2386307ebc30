// Looks for the checkpoints from which jobs shall go on. All their bytes are read, which can take
// longer than nodes wait for their master, so that happens on another thread. Workers of the job
// that live somewhere unknown are shut out before.
//
// Belongs to the thread of its Loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "base/result.h"
#include "cluster/coordinator.h"
#include "cluster/errands.h"
#include "cluster/resume.h"

namespace tandem::cluster {

class CheckpointSearch {
 public:
  // find_resume_point() or newest_or_start(), for example. Called on the other thread.
  using Look = std::function<Result<ResumePoint>(const RunDirectory&)>;
  using Found = std::function<void(const Result<ResumePoint>&)>;

  explicit CheckpointSearch(net::Loop& loop) : errands_(loop) {}

  // `found` is called once, later; with kCancelled when another search for this job has begun since
  // or it was forgotten.
  void begin(JobId job, const RunDirectory& directory, Look look, Found found);
  void forget(JobId job) { latest_.erase(job); }

 private:
  std::map<JobId, std::uint64_t> latest_;  // The number of the search that counts.
  std::uint64_t next_ = 1;
  Errands errands_;
};

}  // namespace tandem::cluster
