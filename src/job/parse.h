// From the text of a job file to a valid Job. Strict: whatever is not understood is an error that
// points at its place, and all mistakes are reported together. Pure; file names are only quoted.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "job/job.h"
#include "job/locations.h"
#include "job/mistake.h"

namespace tandem::job {

// The largest job file that is read.
inline constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;

// A job with what it was read from, so that later mistakes (a layer that does not fit the data) can
// point at it.
struct ParsedJob {
  Job job;
  Texts texts;
  Locations locations;
};

// Reads `toml_text` and then `overrides` ("train.epochs=5"), in order. kInvalidArgument on
// mistakes, with a message of the form shown in job/mistake.h: up to ten of them, all but the first
// behind "error: ".
Result<ParsedJob> parse_located(std::string_view toml_text, std::string_view file_name,
                                std::span<const std::string> overrides);

// The same, for callers that need no places.
Result<Job> parse(std::string_view toml_text, std::string_view file_name,
                  std::span<const std::string> overrides);

// A message that points at a key of the job, in the form of parse()'s. `key_path` is "data.path" or
// "model.layers[3].out"; a key that was not given is pointed at by the table around it.
std::string point_at(const ParsedJob& parsed, std::string_view key_path, std::string_view message,
                     std::string_view help);

}  // namespace tandem::job
