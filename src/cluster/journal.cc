#include "cluster/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "cluster/run_directory.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFile = "submission.json";
constexpr std::string_view kStatuses[] = {"finished", "converged", "failed", "cancelled"};
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

Json read_object(const fs::path& path) {
  const Result<std::string> text = read_file(path, kMostBytes);
  if (!text.ok()) return nullptr;
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json(nullptr);
}

template <typename T>
T value_of(const Json& json, const char* key, T otherwise) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->template get<T>() : otherwise;
  } else {
    return found->is_number_integer() ? found->template get<T>() : otherwise;
  }
}

std::string name_with(std::string_view status) {
  return status.empty() ? kFile : fmt::format("submission-{}.json", status);
}

double number_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

// The last line that tells of training; null without one.
Json last_metrics(const fs::path& path) {
  constexpr std::uint64_t kMostTail = 65536;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return nullptr;
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(0, file.tellg()));
  file.seekg(static_cast<std::streamoff>(size - std::min(size, kMostTail)));
  Json last;
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && value_of(json, "kind", std::string()) == "train")
      last = std::move(json);
  }
  return last;
}

void add_end(const fs::path& directory, Accepted& accepted) {
  const Json report = read_object(directory / "report.json");
  if (report.is_null() && accepted.status.empty()) return;
  if (!report.is_null()) accepted.status = value_of(report, "status", std::string("failed"));
  accepted.reason = value_of(report, "reason", std::string());
  const Json metrics = last_metrics(directory / "metrics.jsonl");
  wire::Progress& progress = accepted.progress;
  // Without a report the metrics say how far it came.
  const Json& work = report.is_null() ? metrics : report;
  progress.set_step(value_of(work, report.is_null() ? "step" : "steps", std::int64_t{0}));
  progress.set_epoch(value_of(work, report.is_null() ? "epoch" : "epochs", std::int64_t{0}));
  progress.set_samples(value_of(work, "samples", std::int64_t{0}));
  progress.set_train_s(number_of(work, "train_s"));
  progress.set_loss(number_of(metrics, "loss"));
  progress.set_lr(number_of(metrics, "lr"));
}

// Its submission, and the status that its name tells of.
std::pair<Json, std::string> read_submission(const fs::path& directory) {
  Json json = read_object(directory / kFile);
  if (!json.is_null()) return {std::move(json), ""};
  for (const std::string_view status : kStatuses) {
    json = read_object(directory / name_with(status));
    if (!json.is_null()) return {std::move(json), std::string(status)};
  }
  return {};
}

}  // namespace

Result<Descriptor> lock_journal(const fs::path& runs) {
  const fs::path path = runs / ".master.lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return system_error("open " + path.string(), errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  return Error(Code::kInvalidArgument, "another master looks after " + runs.string() +
                                           "; end it, or choose another directory with --runs");
}

Result<Accepted> accept(const fs::path& runs, std::string_view name, std::string_view job_text,
                        const fs::path& base_directory, int priority) {
  TANDEM_ASSIGN(const RunDirectory directory, RunDirectory::create_next(runs, name));
  Accepted accepted;
  accepted.directory = directory.path();
  accepted.base_directory = base_directory;
  accepted.priority = priority;
  accepted.accepted_ns =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  Status written = write_file_atomic(directory.job(), job_text);
  if (written.ok()) written = write_accepted(accepted);
  if (written.ok()) return accepted;
  std::error_code ignored;
  fs::remove_all(directory.path(), ignored);
  return std::move(written).error();
}

Status write_accepted(const Accepted& accepted) {
  Json json = {{"accepted_ns", accepted.accepted_ns},
               {"base_directory", accepted.base_directory.string()},
               {"priority", accepted.priority}};
  if (accepted.workers) json["workers"] = *accepted.workers;
  if (accepted.servers) json["servers"] = *accepted.servers;
  // One that has ended and is about to go on keeps the name that says so until it does.
  const std::string status = read_submission(accepted.directory).second;
  return write_file_atomic(accepted.directory / name_with(status), json.dump(2) + "\n");
}

Status rename_accepted(const fs::path& directory, std::string_view status) {
  const fs::path to = directory / name_with(status);
  const fs::path from = directory / name_with(read_submission(directory).second);
  if (from == to) return {};
  if (::rename(from.c_str(), to.c_str()) != 0)
    return system_error("rename " + from.string(), errno);
  return sync_directory(directory);
}

Result<std::vector<Accepted>> read_accepted(const fs::path& runs) {
  std::error_code error;
  std::vector<Accepted> all;
  for (fs::directory_iterator entry(runs, error), end; !error && entry != end;
       entry.increment(error)) {
    Accepted accepted;
    Json json;
    std::tie(json, accepted.status) = read_submission(entry->path());
    if (json.is_null()) continue;
    accepted.directory = entry->path();
    accepted.base_directory = value_of(json, "base_directory", std::string());
    accepted.priority = value_of(json, "priority", 0);
    accepted.accepted_ns = value_of(json, "accepted_ns", std::int64_t{0});
    if (const std::int64_t workers = value_of(json, "workers", std::int64_t{0}); workers > 0)
      accepted.workers = workers;
    if (const std::int64_t servers = value_of(json, "servers", std::int64_t{0}); servers > 0)
      accepted.servers = servers;
    add_end(entry->path(), accepted);
    all.push_back(std::move(accepted));
  }
  if (error) return system_error("list " + runs.string(), error.value());
  std::ranges::sort(all, {}, &Accepted::accepted_ns);
  return all;
}

}  // namespace tandem::cluster
