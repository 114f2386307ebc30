// What a master must find again when it is restarted: which jobs it accepted. Each job's directory
// holds a submission.json, written before the job is acknowledged; a report.json beside it says
// that the job has ended.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::cluster {

struct Accepted {
  std::filesystem::path directory;  // The run's.
  std::filesystem::path base_directory;
  int priority = 0;
  std::string status;  // Of its report; "": it has not ended.
};

// One master at a time looks after the jobs below `runs`, as long as this is open.
// kInvalidArgument when another does.
Result<Descriptor> lock_journal(const std::filesystem::path& runs);

Status write_accepted(const Accepted& accepted);

// All jobs below `runs`, in the order in which they were accepted. Directories that are no job's,
// or whose submission.json cannot be read, are left out.
Result<std::vector<Accepted>> read_accepted(const std::filesystem::path& runs);

}  // namespace tandem::cluster
