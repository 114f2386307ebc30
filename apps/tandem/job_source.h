// Where a job comes from: a file or standard input, and the overrides of the command line.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/parse.h"
#include "surroundings.h"

namespace tandem::cli {

struct LoadedJob {
  job::ParsedJob parsed;                 // Its texts are as the user wrote them.
  std::filesystem::path base_directory;  // Of the job's relative paths; absolute.
};

// Reads the job file, or standard input for "-". Errors point at the line that is wrong.
Result<LoadedJob> load_job(const std::string& path, std::span<const std::string> overrides);

// Prints a warning about settings that do nothing beside the others.
void warn_of_idle_settings(const job::Job& job, const Surroundings& around);

// Overrides of keys that hold a path, with the path taken from the current directory, as all paths
// of a command line are; the others as they come.
std::vector<std::string> with_absolute_paths(std::span<const std::string> overrides);

}  // namespace tandem::cli
