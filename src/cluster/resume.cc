#include "cluster/resume.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/owner.h"
#include "checkpoint/path_text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "cluster/meeting.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;

Result<fs::path> base_directory_of(const fs::path& checkpoint) {
  const fs::path path = checkpoint / checkpoint::kTrainingFileName;
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  TANDEM_ASSIGN(const checkpoint::Safetensors training,
                checkpoint::parse_safetensors(file.bytes(), path.string()));
  const auto found = training.metadata.find(std::string(checkpoint::kBaseDirectory));
  if (found != training.metadata.end()) return checkpoint::path_from_text(found->second);
  return Error(Code::kCorrupt,
               fmt::format("{} does not say `{}`", path.string(), checkpoint::kBaseDirectory));
}

// Lines that are whole and not of a later step.
std::string lines_until(std::string_view text, std::int64_t step) {
  std::string kept;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool stays = json.is_object() && json.contains("step") &&
                       json["step"].is_number_integer() && json["step"].get<std::int64_t>() <= step;
    if (stays) kept += std::string(line) + "\n";
  }
  return kept;
}

Status cut_metrics(const fs::path& path, std::int64_t step) {
  const Result<std::string> text = read_file(path);
  if (!text.ok() && text.error().code() == Code::kNotFound) return {};
  if (!text.ok()) return text.error();
  const std::string kept = lines_until(*text, step);
  // A full disk has no room for the same once more.
  return kept == *text ? Status() : write_file_atomic(path, kept);
}

}  // namespace

Result<ResumePoint> find_resume_point(const RunDirectory& directory,
                                      std::optional<std::int64_t> step) {
  TANDEM_ASSIGN(checkpoint::Choice choice,
                checkpoint::choose_checkpoint(directory.checkpoints(), step));
  ResumePoint point{choice.stored.path, choice.stored.step, {}, std::move(choice.refused)};
  TANDEM_ASSIGN(point.base_directory, base_directory_of(point.checkpoint));
  return point;
}

Result<ResumePoint> newest_or_start(const RunDirectory& directory) {
  TANDEM_ASSIGN(const std::vector<checkpoint::Stored> stored,
                checkpoint::list_checkpoints(directory.checkpoints()));
  if (stored.empty()) return ResumePoint{};
  auto found = find_resume_point(directory, std::nullopt);
  if (found.ok() || found.error().code() != Code::kNotFound) return found;
  ResumePoint start;
  start.refused.push_back(found.error().message());
  for (const checkpoint::Stored& each : stored) {
    const fs::path aside = each.path.parent_path() / ("damaged-" + each.path.filename().string());
    std::error_code error;
    fs::remove_all(aside, error);
    fs::rename(each.path, aside, error);
    if (error) return system_error(fmt::format("rename {}", each.path.string()), error.value());
  }
  return start;
}

Status shut_out_workers(const RunDirectory& directory) {
  TANDEM_ASSIGN(const std::string nobody, random_token());
  return checkpoint::set_owner(directory.path(), nobody);
}

Result<bool> has_checkpoints(const RunDirectory& directory) {
  TANDEM_ASSIGN(const std::vector<checkpoint::Stored> stored,
                checkpoint::list_checkpoints(directory.checkpoints()));
  return !stored.empty();
}

Result<ResumePoint> point_or_start(const RunDirectory& directory,
                                   std::optional<std::int64_t> step) {
  TANDEM_ASSIGN(const bool has_some, has_checkpoints(directory));
  return has_some || step ? find_resume_point(directory, step) : Result<ResumePoint>(ResumePoint{});
}

Status go_back_to(const RunDirectory& directory, const ResumePoint& point) {
  TANDEM_TRY(checkpoint::sweep_store(directory.checkpoints()));
  TANDEM_ASSIGN(const std::vector<checkpoint::Stored> stored,
                checkpoint::list_checkpoints(directory.checkpoints()));
  for (const checkpoint::Stored& each : stored) {
    if (each.step > point.step) TANDEM_TRY(checkpoint::remove_checkpoint(each));
  }
  TANDEM_TRY(cut_metrics(directory.metrics(), point.step));
  if (::rename(directory.report().c_str(), directory.earlier_report().c_str()) == 0 ||
      errno == ENOENT)
    return {};
  return system_error(fmt::format("rename {}", directory.report().string()), errno);
}

Status write_report(const RunDirectory& directory, const Report& report) {
  TANDEM_TRY(write_file_atomic(directory.report(), to_json(report)));
  // The new one is whole: that an old one stays beside it does no harm.
  [[maybe_unused]] const int ignored = ::unlink(directory.earlier_report().c_str());
  return {};
}

void restore_earlier_report(const RunDirectory& directory) {
  // Where there is none, or the disk fails altogether, nothing can be done about it.
  [[maybe_unused]] const int ignored =
      ::rename(directory.earlier_report().c_str(), directory.report().c_str());
}

Result<RunLock> RunLock::take(const RunDirectory& directory) {
  const fs::path path = directory.checkpoints();
  Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open()) return system_error(fmt::format("open {}", path.string()), errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return RunLock(std::move(file));
  if (errno != EWOULDBLOCK) return system_error(fmt::format("lock {}", path.string()), errno);
  return Error(Code::kInvalidArgument,
               fmt::format("another tandem is at work in {}; wait for its end, or stop it",
                           directory.path().string()));
}

}  // namespace tandem::cluster
