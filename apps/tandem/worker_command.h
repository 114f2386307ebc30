// Sub-commands that need libtorch are the worker's: this program checks the arguments, prepares the
// environment and becomes the worker.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "surroundings.h"

namespace tandem::cli {

// A trained model as the worker wants to hear of it.
struct ModelPlace {
  std::filesystem::path file;            // The .safetensors file.
  std::filesystem::path base_directory;  // From which its job's relative paths are taken.
  std::int64_t threads = 1;              // Of its job.
};

// Finds the model in `path`, a file or a run directory, and what its run recorded beside it.
// `overrides` are checked when its job is there. kNotFound says what was looked for.
Result<ModelPlace> find_model(const std::string& path, std::span<const std::string> overrides);

// Prints a warning when nothing can tell whether the model file is as it was written.
void warn_if_unchecked(const std::filesystem::path& model_file, const Surroundings& around);

// Replaces this process by the worker with these arguments. Returns only on failure.
Error become_worker(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    std::int64_t threads, const Surroundings& around);

}  // namespace tandem::cli
