#include "checkpoint/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "base/file.h"

namespace tandem::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
// Directories that are being written or removed.
constexpr std::string_view kUnfinished = ".unfinished-";

std::string name_of(std::int64_t step) {
  return fmt::format("{}{:09}", kPrefix, step);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return std::nullopt;
  return step;
}

Error failed(std::string_view doing, const fs::path& path, int error_number) {
  return system_error(fmt::format("{} {}", doing, path.string()), error_number);
}

Result<std::vector<fs::path>> entries_of(const fs::path& store) {
  std::vector<fs::path> entries;
  std::error_code error;
  if (!fs::exists(store, error)) return entries;
  for (fs::directory_iterator entry(store, error), end; !error && entry != end;
       entry.increment(error))
    entries.push_back(entry->path());
  if (error) return failed("list", store, error.value());
  return entries;
}

// Another process may write or remove there at the same time: a worker that finishes what it was
// writing when its run went back, or was given to others.
Status erase_tree(const fs::path& path) {
  constexpr int kAttempts = 100;
  std::error_code error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    fs::remove_all(path, error);
    if (error != std::errc::no_such_file_or_directory && error != std::errc::directory_not_empty)
      break;
  }
  if (error) return failed("remove", path, error.value());
  return {};
}

Status move_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename onto", to, errno);
  return {};
}

fs::path unfinished(const fs::path& path, std::string_view doing) {
  return path.parent_path() /
         fmt::format("{}{}-{}-{}", kUnfinished, doing, path.filename().string(), ::getpid());
}

// Gives `directory` the name `path`. What had that name is then in `directory`, or gone.
Status put_in_place(const fs::path& directory, const fs::path& path) {
  if (::renameat2(AT_FDCWD, directory.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0)
    return {};
  // ENOENT: there is nothing to exchange it with. Some file systems, such as NFS, exchange nothing
  // (EINVAL); with those the old one is away for the moment between two renames.
  std::error_code error;
  if (errno != ENOENT && fs::exists(path, error)) TANDEM_TRY(remove_checkpoint({0, path}));
  return move_to(directory, path);
}

// Whether what could not be read is lost. If not, going back to an older one, which drops all that
// is newer, would be wrong.
bool is_damage(Code code) {
  return code != Code::kDenied && code != Code::kVersionMismatch && code != Code::kOutOfSpace;
}

Status write_new(const fs::path& directory, const fs::path& path, const ModelContent& model,
                 const ModelContent& training, const std::function<Status()>& may_write) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return failed("create directory", directory, error.value());
  TANDEM_ASSIGN([[maybe_unused]] const Manifest weights,
                save_model(directory / kModelFileName, model));
  TANDEM_ASSIGN([[maybe_unused]] const Manifest state,
                save_model(directory / kTrainingFileName, training));
  TANDEM_TRY(may_write());
  TANDEM_TRY(put_in_place(directory, path));
  return sync_directory(path.parent_path());
}

}  // namespace

Result<std::vector<Stored>> list_checkpoints(const fs::path& store) {
  TANDEM_ASSIGN(const std::vector<fs::path> entries, entries_of(store));
  std::vector<Stored> found;
  for (const fs::path& entry : entries) {
    if (const auto step = step_of(entry.filename().string())) found.push_back({*step, entry});
  }
  std::ranges::sort(found, {}, &Stored::step);
  return found;
}

Status verify_checkpoint(const Stored& stored) {
  for (const std::string_view name : {kModelFileName, kTrainingFileName}) {
    Result<Manifest> manifest = verify_model(stored.path / name);
    if (manifest.ok()) continue;
    if (is_damage(manifest.error().code()))
      return Error(Code::kCorrupt, manifest.error().message());
    return std::move(manifest).error();
  }
  return {};
}

Result<Choice> choose_checkpoint(const fs::path& store, std::optional<std::int64_t> step) {
  TANDEM_ASSIGN(std::vector<Stored> found, list_checkpoints(store));
  std::string steps;
  for (const Stored& stored : found) steps += fmt::format(" {}", stored.step);
  if (step) std::erase_if(found, [&](const Stored& stored) { return stored.step != *step; });
  Choice choice;
  for (; !found.empty(); found.pop_back()) {
    Status whole = verify_checkpoint(found.back());
    if (whole.ok()) {
      choice.stored = found.back();
      return choice;
    }
    if (whole.error().code() != Code::kCorrupt) {
      return std::move(whole).error().within(
          fmt::format("the checkpoint of step {} cannot be read, though it need not be damaged "
                      "(--step goes back "
                      "to an older one)",
                      found.back().step));
    }
    choice.refused.push_back(fmt::format("the checkpoint of step {} is damaged: {}",
                                         found.back().step, whole.error().message()));
  }
  std::string message =
      step ? fmt::format("{} has no whole checkpoint of step {}; it has {}", store.string(), *step,
                         steps.empty() ? "none" : "those of steps" + steps)
           : fmt::format(
                 "{} has no whole checkpoint to go on from; train anew, with "
                 "checkpoint.every_steps or every_seconds below what may be lost",
                 store.string());
  for (const std::string& reason : choice.refused) message += "\n" + reason;
  return Error(Code::kNotFound, std::move(message));
}

Status write_checkpoint(const fs::path& store, std::int64_t step, const ModelContent& model,
                        const ModelContent& training, const std::function<Status()>& may_write) {
  TANDEM_TRY(may_write());
  // Before it, for the space; and what cannot be removed is no reason not to write.
  [[maybe_unused]] const Status swept = sweep_store(store);
  const fs::path path = store / name_of(step), directory = unfinished(path, "write");
  Status written = write_new(directory, path, model, training, may_write);
  // What is left of a failure, or the one that was replaced. How writing went says more than
  // whether that could be removed, which the next writer tries again.
  [[maybe_unused]] const Status removed = erase_tree(directory);
  return written;
}

Status remove_checkpoint(const Stored& stored) {
  const fs::path away = unfinished(stored.path, "remove");
  TANDEM_TRY(erase_tree(away));
  TANDEM_TRY(move_to(stored.path, away));
  return erase_tree(away);
}

Status sweep_store(const fs::path& store) {
  TANDEM_ASSIGN(const std::vector<fs::path> entries, entries_of(store));
  for (const fs::path& entry : entries) {
    if (entry.filename().string().starts_with(kUnfinished)) TANDEM_TRY(erase_tree(entry));
  }
  return {};
}

std::vector<Stored> superfluous(std::vector<Stored> stored, std::int64_t keep,
                                std::optional<std::int64_t> best) {
  std::ranges::sort(stored, {}, &Stored::step);
  const auto kept = std::min(keep, std::ssize(stored));
  stored.erase(stored.end() - kept, stored.end());
  std::erase_if(stored, [&](const Stored& each) { return best && each.step == *best; });
  return stored;
}

}  // namespace tandem::checkpoint
