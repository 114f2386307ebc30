#include "cluster/run_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "base/file.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;

// More concurrent starts than this in one directory are not a race but a mistake.
constexpr std::int64_t kMostAttempts = 10000;

std::string file_name(std::string_view name) {
  std::string result(name.substr(0, 100));
  for (char& c : result) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-' && c != '.')
      c = '-';
  }
  // A leading dot would hide the directory, and ".." would leave it.
  if (!result.empty() && result.front() == '.') result.front() = '-';
  return result.empty() ? "run" : result;
}

// The N of NAME-N, or 0 for any other entry.
std::int64_t number_of(std::string_view entry, std::string_view name) {
  if (entry.size() < name.size() + 2 || !entry.starts_with(name) || entry[name.size()] != '-')
    return 0;
  const std::string_view digits = entry.substr(name.size() + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  constexpr std::int64_t kMost = 1'000'000'000'000;  // Beyond it is no number of ours.
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && number > 0 && number < kMost ? number : 0;
}

Result<std::int64_t> highest_number(const fs::path& parent, std::string_view name) {
  std::int64_t highest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    highest = std::max(highest, number_of(entry->path().filename().string(), name));
  }
  if (error) return system_error(fmt::format("list {}", parent.string()), error.value());
  return highest;
}

Error taken(const fs::path& path) {
  return Error(Code::kInvalidArgument,
               fmt::format("{} exists already and is not empty; nothing is overwritten.\n"
                           "Give --out another directory, or leave it out to get the next free one",
                           path.string()));
}

// mkdir is atomic: of two runs that want the same directory, one makes its checkpoints/.
Status claim(const RunDirectory& directory) {
  if (::mkdir(directory.checkpoints().c_str(), 0777) == 0) return {};
  if (errno == EEXIST) return taken(directory.path());
  return system_error(fmt::format("create {}", directory.checkpoints().string()), errno);
}

}  // namespace

Result<RunDirectory> RunDirectory::create_next(const fs::path& parent, std::string_view name) {
  TANDEM_TRY(tandem::create_directories(parent));
  const std::string stem = file_name(name);
  TANDEM_ASSIGN(const std::int64_t highest, highest_number(parent, stem));
  for (std::int64_t number = highest + 1; number <= highest + kMostAttempts; ++number) {
    RunDirectory directory(parent / fmt::format("{}-{}", stem, number));
    if (::mkdir(directory.path_.c_str(), 0777) == 0) {
      Status claimed = claim(directory);
      if (claimed.ok()) return directory;
      ::rmdir(directory.path_.c_str());
      return std::move(claimed).error();
    }
    if (errno != EEXIST)
      return system_error(fmt::format("create {}", directory.path_.string()), errno);
  }
  return Error(Code::kInternal, fmt::format("no free run directory {}/{}-N after {} attempts",
                                            parent.string(), stem, kMostAttempts));
}

Status RunDirectory::check_free(const fs::path& path) {
  if (path.empty()) return Error(Code::kInvalidArgument, "--out needs the name of a directory");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return {};
  if (!fs::is_directory(status)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} exists and is not a directory", path.string()));
  }
  const bool empty = fs::is_empty(path, error);
  if (error) return system_error(fmt::format("list {}", path.string()), error.value());
  return empty ? Status() : Status(taken(path));
}

Result<RunDirectory> RunDirectory::create_at(const fs::path& path) {
  TANDEM_TRY(check_free(path));
  RunDirectory directory(path);
  TANDEM_TRY(tandem::create_directories(path));
  TANDEM_TRY(claim(directory));
  return directory;
}

Result<RunDirectory> RunDirectory::open(const fs::path& path) {
  RunDirectory directory(path);
  std::error_code error;
  if (fs::is_regular_file(directory.job(), error) &&
      fs::is_directory(directory.checkpoints(), error))
    return directory;
  return Error(Code::kNotFound,
               fmt::format("{} is not the directory of a run: it has no job.toml and checkpoints/",
                           path.string()));
}

Result<RunDirectory> RunDirectory::open_or_create(const fs::path& path, std::string_view job_text) {
  RunDirectory directory(path);
  TANDEM_TRY(tandem::create_directories(directory.checkpoints()));
  const Result<std::string> there = read_file(directory.job());
  if (!there.ok() || *there != job_text) TANDEM_TRY(write_file_atomic(directory.job(), job_text));
  return directory;
}

fs::path RunDirectory::worker_log(int worker) const {
  return path_ / fmt::format("worker-{}.log", worker);
}

fs::path RunDirectory::server_log(int server) const {
  return path_ / fmt::format("server-{}.log", server);
}

Result<TemporaryRun> TemporaryRun::create() {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  if (error) return system_error("find a directory for temporary files", error.value());
  std::string pattern = (place / "tandem-run-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return system_error(fmt::format("create {}", pattern), errno);
  auto directory = RunDirectory::create_at(fs::path(pattern) / "run");
  if (!directory.ok()) {
    fs::remove_all(pattern, error);
    return std::move(directory).error();
  }
  return TemporaryRun(pattern, std::move(directory).value());
}

TemporaryRun::TemporaryRun(TemporaryRun&& other) noexcept
    : root_(std::move(other.root_)), directory_(std::move(other.directory_)) {
  other.root_.clear();
}

TemporaryRun::~TemporaryRun() {
  if (root_.empty()) return;
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

}  // namespace tandem::cluster
