// One job of a master: its files, its records, where its workers meet, and what is to be said of
// it. Belongs to the master's thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "cluster/coordinator.h"
#include "cluster/job_run.h"
#include "cluster/recorder.h"
#include "cluster/resume.h"
#include "cluster/run.h"
#include "collective/store.h"

namespace tandem::cluster {

enum class JobState : std::uint8_t {
  kQueued,
  kRunning,
  kFinished,
  kConverged,
  kFailed,
  kCancelled
};
std::string_view to_string(JobState state);
// How a job has ended, by what to_string() gave.
JobState end_named(std::string_view name);
inline bool has_ended(JobState state) {
  return state >= JobState::kFinished;
}

class MasterJob final : public RunView {
 public:
  using Publish = std::function<void(const nlohmann::json& event)>;

  MasterJob(JobId id, RunRequest request, RunDirectory directory, int priority, Publish publish);

  JobId id() const { return id_; }
  // What people call it: the name of its directory.
  std::string name() const { return directory_.path().filename().string(); }
  int priority() const { return priority_; }
  JobState state() const { return state_; }
  const RunRequest& request() const { return request_; }
  const RunDirectory& directory() const { return directory_; }
  const std::string& token() const { return token_; }
  const std::optional<wire::Progress>& progress() const { return progress_; }

  // Opens its files and the store where its workers meet, on `address`. `kernels` are those that
  // every node has.
  Status begin(const Kernels& kernels, const std::string& address);
  JobRun& run() { return *run_; }
  MeetingPoint meeting_point() const { return {"", store_->port()}; }
  void end(const EndJob& end);
  // Something of its files failed: it ends so.
  void end(Error error);
  // After a restart of the master: what its files say.
  void end_as(JobState state, std::string reason, const wire::Progress& progress);
  // Its checkpoints are read, until queue_again() or end_check(). The latter is told why it cannot
  // go on; nothing when the user wants it so.
  void check();
  bool is_checking() const { return checking_; }
  // Whether it had ended before they were read: then it has its report and is as it was.
  bool had_ended() const { return cluster::has_ended(before_); }
  void end_check(const std::optional<Error>& why);
  // Its files are as they were at that checkpoint. Until it begins it is not locked any more.
  Status go_back(const ResumePoint& point);
  // In the journal, that a user wants it to end. The Error says what comes of it when that fails.
  Status note_cancel() const;
  // It shall run again, from a checkpoint.
  void queue_again(ResumePoint point);

  void set_asked(std::int64_t workers) { asked_ = workers; }

  nlohmann::json to_json(const Coordinator& coordinator) const;

  void message(const wire::WorkerMessage& message) override;
  void line(int, Stream, std::string_view) override {}
  void stopping(Order, Cause) override {}
  void resumed() override {}
  void tick() override {}
  void lost(std::size_t, const std::deque<std::string>&) override {}

 private:
  void add_earlier_work(Report& report) const;
  void cancel_waiting(Report& report);
  void close(Report report);

  const JobId id_;
  RunRequest request_;
  const RunDirectory directory_;
  const int priority_;
  const Publish publish_;
  JobState state_ = JobState::kQueued;
  JobState before_ = JobState::kQueued;  // When its checkpoints are read.
  bool checking_ = false;
  std::string reason_;
  std::int64_t asked_;
  std::string token_;
  std::optional<RunLock> lock_;
  std::optional<Recorder> recorder_;
  std::optional<JobRun> run_;
  std::unique_ptr<collective::StoreServer> store_;
  std::optional<wire::Started> started_;
  std::optional<wire::Progress> progress_;
  std::optional<Report> report_;
  TimePoint began_{};
};

}  // namespace tandem::cluster
