// Going on with a run that has ended: from which checkpoint, and what of its records stays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "cluster/report.h"
#include "cluster/run_directory.h"

namespace tandem::cluster {

struct ResumePoint {
  std::filesystem::path checkpoint;  // Its directory; "": from the start.
  std::int64_t step = 0;
  std::filesystem::path base_directory;  // From which the job's relative paths are taken.
  std::vector<std::string> refused;      // Newer checkpoints that are damaged, and how.
};

// The newest whole checkpoint of a run, or that of `step`. kNotFound when there is none.
Result<ResumePoint> find_resume_point(const RunDirectory& directory,
                                      std::optional<std::int64_t> step);

// The newest whole checkpoint, or the start when there is none. Damaged ones are named in `refused`
// and, when none is whole, set aside. Any other error means that they may be whole, and nothing was
// touched. REQUIRES: the directory is locked.
Result<ResumePoint> newest_or_start(const RunDirectory& directory);

// As find_resume_point(), but a run that has no checkpoint at all, perhaps because it was cancelled
// before it began, begins.
Result<ResumePoint> point_or_start(const RunDirectory& directory, std::optional<std::int64_t> step);

// From now on workers that were started before write nothing there (checkpoint/owner.h), so that
// what is looked for next stays there.
Status shut_out_workers(const RunDirectory& directory);

// Whether the run has a checkpoint at all, whole or not.
Result<bool> has_checkpoints(const RunDirectory& directory);

// Takes away what the run did after the point: later checkpoints, lines of metrics.jsonl. The
// report is set aside, last: after an error the run has the one that it had. REQUIRES: the
// directory is locked.
Status go_back_to(const RunDirectory& directory, const ResumePoint& point);

// The last thing that a run writes; then the report that was set aside is gone. On failure that one
// stays where it is.
Status write_report(const RunDirectory& directory, const Report& report);

// The report that was set aside is the run's again, as there will be no other.
void restore_earlier_report(const RunDirectory& directory);

// One process at a time works in a run directory. Held until its owner ends, also by SIGKILL.
class RunLock {
 public:
  // kInvalidArgument when another process has it.
  static Result<RunLock> take(const RunDirectory& directory);

 private:
  explicit RunLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

}  // namespace tandem::cluster
