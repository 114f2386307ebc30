#include "worker_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "base/cpu.h"
#include "base/file.h"
#include "checkpoint/model_file.h"
#include "cluster/child.h"
#include "cluster/environment.h"
#include "job_source.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// The largest report that is read: 10,000 events of a few hundred bytes.
constexpr std::size_t kMostReportBytes = std::size_t{64} << 20;

// What the run recorded, or the current directory for a model that no run left.
fs::path recorded_base_directory(const fs::path& run_directory) {
  if (const auto text = read_file(run_directory / "report.json", kMostReportBytes); text.ok()) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_object() && json.contains("base_directory") && json["base_directory"].is_string()) {
      return json["base_directory"].get<std::string>();
    }
  }
  std::error_code error;
  return fs::current_path(error);
}

}  // namespace

Result<ModelPlace> find_model(const std::string& path, std::span<const std::string> overrides) {
  std::error_code error;
  ModelPlace place;
  const bool is_directory = fs::is_directory(path, error);
  place.file = is_directory ? fs::path(path) / checkpoint::kModelFileName : fs::path(path);
  if (!fs::exists(place.file, error)) {
    if (error) return system_error(fmt::format("look for {}", place.file.string()), error.value());
    return Error(
        Code::kNotFound,
        is_directory
            ? fmt::format("there is no {} in {}; is it the directory of a run that has finished?",
                          checkpoint::kModelFileName, path)
            : fmt::format("{} does not exist; give a .safetensors file or a run directory", path));
  }
  const fs::path run_directory =
      place.file.has_parent_path() ? place.file.parent_path() : fs::path(".");
  place.base_directory = recorded_base_directory(run_directory);
  if (const fs::path job = run_directory / "job.toml"; fs::exists(job, error)) {
    TANDEM_ASSIGN(const LoadedJob loaded, load_job(job.string(), overrides));
    place.threads = loaded.parsed.job.train.threads;
  }
  return place;
}

Error become_worker(const fs::path& program, const std::vector<std::string>& arguments,
                    std::int64_t threads, const Surroundings& around) {
  std::vector<std::string> environment =
      cluster::worker_environment(around.environment, best_kernels(detect_cpu()), threads);
  return cluster::become({program, arguments, std::move(environment)});
}

void warn_if_unchecked(const fs::path& model_file, const Surroundings& around) {
  std::error_code error;
  const fs::path manifest = checkpoint::manifest_path(model_file);
  if (fs::exists(manifest, error)) return;
  print_warning(around, fmt::format("{}: no manifest beside it ({}): not checked for damage",
                                    model_file.string(), manifest.filename().string()));
}

}  // namespace tandem::cli
