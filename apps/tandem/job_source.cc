#include "job_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include "base/file.h"
#include "job/idle.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kPathKeys = {
    "data.path",        "data.test_path",   "data.images",    "data.labels",
    "data.test_images", "data.test_labels", "model.init_from"};

Result<std::string> read_standard_input() {
  std::string text;
  std::array<char, 65536> chunk;
  while (std::cin.read(chunk.data(), chunk.size()), std::cin.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > job::kMostFileBytes) {
      return Error(
          Code::kInvalidArgument,
          fmt::format("the job on standard input is larger than {} bytes", job::kMostFileBytes));
    }
  }
  return text;
}

}  // namespace

Result<LoadedJob> load_job(const std::string& path, std::span<const std::string> overrides) {
  const bool from_input = path == "-";
  TANDEM_ASSIGN(const std::string text,
                from_input ? read_standard_input() : read_file(path, job::kMostFileBytes));
  const std::vector<std::string> resolved = with_absolute_paths(overrides);
  TANDEM_ASSIGN(job::ParsedJob parsed,
                job::parse_located(text, from_input ? "<stdin>" : path, resolved));
  // A path's value begins at the same column; only its end is elsewhere, and carets stop at the
  // line's.
  parsed.texts.overrides.assign(overrides.begin(), overrides.end());
  std::error_code error;
  const fs::path base =
      fs::absolute(from_input ? fs::path("x") : fs::path(path), error).parent_path();
  if (error) return system_error("find the current directory", error.value());
  return LoadedJob{std::move(parsed), base};
}

void warn_of_idle_settings(const job::Job& job, const Surroundings& around) {
  for (const std::string& sentence : job::idle_settings(job)) print_warning(around, sentence);
}

std::vector<std::string> with_absolute_paths(std::span<const std::string> overrides) {
  std::vector<std::string> result(overrides.begin(), overrides.end());
  for (std::string& text : result) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos ||
        std::ranges::find(kPathKeys, text.substr(0, equals)) == kPathKeys.end())
      continue;
    const std::string value = text.substr(equals + 1);
    // A value in quotes is TOML and taken as it is; so is an empty one, which means that there is
    // no path.
    if (value.empty() || value.front() == '"' || value.front() == '\'') continue;
    std::error_code error;
    const fs::path absolute = fs::absolute(value, error);
    if (!error) text = text.substr(0, equals + 1) + absolute.string();
  }
  return result;
}

}  // namespace tandem::cli
