// The directory of a run and the names of what lies in it:
//
//   job.toml        the job with every default filled in      worker-0.log   what worker 0 printed
//   metrics.jsonl   a line per progress report, evaluation    checkpoints/   what the run saved
//   events.jsonl    a line per event                          report.json    the result; written
//   last, atomically
//   server-0.log    what parameter server 0 printed
//   owner           for whom workers may write (checkpoint/owner.h)
//
// A directory is claimed atomically, so two runs never share one, and nothing that exists is
// overwritten, except by the run itself when it goes on (cluster/resume.h). docs/report.md
// describes the files. Plain values; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::cluster {

class RunDirectory {
 public:
  // PARENT/NAME-N with the number after the highest that exists. Characters of `name` that do not
  // belong into a file's name become '-'.
  static Result<RunDirectory> create_next(const std::filesystem::path& parent,
                                          std::string_view name);
  // Exactly `path`, which must not exist or be empty: check_free() says whether.
  static Status check_free(const std::filesystem::path& path);
  static Result<RunDirectory> create_at(const std::filesystem::path& path);

  // One that a run has made. kNotFound when it is none.
  static Result<RunDirectory> open(const std::filesystem::path& path);

  // One that another machine has made, here under the same path; made here too when the machines
  // share no storage. `job_text` is what its job.toml holds.
  static Result<RunDirectory> open_or_create(const std::filesystem::path& path,
                                             std::string_view job_text);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path job() const { return path_ / "job.toml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return path_ / "events.jsonl"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path report() const { return path_ / "report.json"; }
  // Of a run that goes on: the report that it had, until there is another.
  std::filesystem::path earlier_report() const { return path_ / "report-before.json"; }
  std::filesystem::path worker_log(int worker) const;
  std::filesystem::path server_log(int server) const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

// A run directory of its own under the system's place for temporary files, removed with its owner:
// for dry runs.
class TemporaryRun {
 public:
  static Result<TemporaryRun> create();
  TemporaryRun(TemporaryRun&& other) noexcept;
  TemporaryRun& operator=(TemporaryRun&&) = delete;
  ~TemporaryRun();

  const RunDirectory& directory() const { return directory_; }

 private:
  TemporaryRun(std::filesystem::path root, RunDirectory directory)
      : root_(std::move(root)), directory_(std::move(directory)) {}

  std::filesystem::path root_;
  RunDirectory directory_;
};

}  // namespace tandem::cluster
