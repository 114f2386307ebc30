#include "cluster/journal.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFile = "submission.json";
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

}  // namespace

Result<Descriptor> lock_journal(const fs::path& runs) {
  const fs::path path = runs / ".master.lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return system_error("open " + path.string(), errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  return Error(Code::kInvalidArgument, "another master looks after " + runs.string() +
                                           "; end it, or choose another directory with --runs");
}

Status write_accepted(const Accepted& accepted) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const Json json = {
      {"accepted_ns", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()},
      {"base_directory", accepted.base_directory.string()},
      {"priority", accepted.priority}};
  return write_file_atomic(accepted.directory / kFile, json.dump(2) + "\n");
}

Result<std::vector<Accepted>> read_accepted(const fs::path& runs) {
  std::error_code error;
  std::vector<std::pair<std::int64_t, Accepted>> found;
  for (fs::directory_iterator entry(runs, error), end; !error && entry != end;
       entry.increment(error)) {
    const Json json = read_object(entry->path() / kFile);
    if (json.is_null()) continue;
    Accepted accepted;
    accepted.directory = entry->path();
    accepted.base_directory = value_of(json, "base_directory", std::string());
    accepted.priority = value_of(json, "priority", 0);
    const Json report = read_object(entry->path() / "report.json");
    if (!report.is_null()) accepted.status = value_of(report, "status", std::string("failed"));
    found.emplace_back(value_of(json, "accepted_ns", std::int64_t{0}), std::move(accepted));
  }
  if (error) return system_error("list " + runs.string(), error.value());
  std::ranges::sort(found, {}, [](const auto& each) { return each.first; });
  std::vector<Accepted> all;
  for (auto& [when, accepted] : found) all.push_back(std::move(accepted));
  return all;
}

}  // namespace tandem::cluster
