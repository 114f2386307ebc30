// What a master must find again when it is restarted: which jobs it accepted, how many workers they
// shall have, and what became of them. Each job's directory holds a submission.json, written before
// the job is acknowledged; a report.json beside it says that the job has ended. Where that could
// not be written, the submission has another name, which takes no space on the disk:
// submission-finished.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "wire/worker.pb.h"

namespace tandem::cluster {

struct Accepted {
  std::filesystem::path directory;  // The run's.
  std::filesystem::path base_directory;
  int priority = 0;
  std::int64_t accepted_ns = 0;         // The time.
  std::optional<std::int64_t> workers;  // That it shall have, when that was changed.
  std::optional<std::int64_t> servers;  // Parameter servers, likewise.

  // Of its report and its metrics, when it has ended.
  std::string status;  // "": it has not.
  std::string reason;
  wire::Progress progress;
};

// One master at a time looks after the jobs below `runs`, as long as this is open.
// kInvalidArgument when another does.
Result<Descriptor> lock_journal(const std::filesystem::path& runs);

// Makes the directory of a new job and writes its job.toml and submission.json. On failure nothing
// is left of it.
Result<Accepted> accept(const std::filesystem::path& runs, std::string_view name,
                        std::string_view job_text, const std::filesystem::path& base_directory,
                        int priority);

// Replaces what was written for this job before.
Status write_accepted(const Accepted& accepted);

// The job has ended so, and its report could not be written; or it goes on, when `status` is "".
Status rename_accepted(const std::filesystem::path& directory, std::string_view status);

// All jobs below `runs`, in the order in which they were accepted. Directories that are no job's,
// or whose submission.json cannot be read, are left out.
Result<std::vector<Accepted>> read_accepted(const std::filesystem::path& runs);

}  // namespace tandem::cluster
