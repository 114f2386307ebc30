#include "cluster/master_job.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/file.h"
#include "cluster/earlier_work.h"
#include "cluster/journal.h"
#include "cluster/meeting.h"
#include "cluster/summary.h"

namespace tandem::cluster {

using Json = nlohmann::json;

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kFinished:
      return "finished";
    case JobState::kConverged:
      return "converged";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

JobState end_named(std::string_view name) {
  for (const JobState state : {JobState::kFinished, JobState::kConverged, JobState::kCancelled}) {
    if (to_string(state) == name) return state;
  }
  return JobState::kFailed;
}

MasterJob::MasterJob(JobId id, RunRequest request, RunDirectory directory, int priority,
                     Publish publish)
    : id_(id),
      request_(std::move(request)),
      directory_(std::move(directory)),
      priority_(priority),
      publish_(std::move(publish)),
      asked_(request_.parsed.job.cluster.workers) {}

Status MasterJob::begin(const Kernels& kernels, const std::string& address) {
  request_.kernels = kernels;
  began_ = std::chrono::steady_clock::now();
  report_ = blank_report(request_);
  TANDEM_ASSIGN(RunLock lock, RunLock::take(directory_));
  lock_.emplace(std::move(lock));
  if (request_.resume) TANDEM_TRY(go_back_to(directory_, *request_.resume));
  TANDEM_TRY(write_file_atomic(directory_.job(), request_.job_text));
  // A job that was queued again has files.
  TANDEM_ASSIGN(Recorder recorder, request_.resume ? Recorder::reopen(directory_, 0)
                                                   : Recorder::create(directory_, 0));
  recorder_.emplace(std::move(recorder));
  if (request_.resume) {
    for (const std::string& refused : request_.resume->refused)
      recorder_->event("checkpoint_damaged", "master", refused);
    recorder_->event("resumed", "master", fmt::format("after step {}", request_.resume->step));
  }
  TANDEM_ASSIGN(token_, random_token());
  TANDEM_ASSIGN(store_, collective::StoreServer::start(address, 0, token_));
  run_.emplace(request_, directory_, *recorder_, *this);
  state_ = JobState::kRunning;
  return {};
}

void MasterJob::message(const wire::WorkerMessage& message) {
  Json event = {{"job", name()}};
  if (message.has_started()) started_ = message.started();
  if (message.has_progress()) {
    const bool is_news = !progress_ || progress_->step() != message.progress().step();
    progress_ = message.progress();
    if (!is_news) return;
    event["kind"] = "progress";
    event["step"] = progress_->step();
    event["loss"] = progress_->loss();
  } else if (message.has_evaluated()) {
    event["kind"] = "evaluated";
    event["part"] = message.evaluated().part();
    event["step"] = message.evaluated().step();
    event["loss"] = message.evaluated().loss();
    if (message.evaluated().has_accuracy()) event["accuracy"] = message.evaluated().accuracy();
    if (message.evaluated().has_rmse()) event["rmse"] = message.evaluated().rmse();
  } else if (message.has_event()) {
    event["kind"] = message.event().kind();
    event["detail"] = message.event().detail();
  } else {
    return;
  }
  publish_(event);
}

void MasterJob::end(const EndJob& end) {
  Report report = report_ ? std::move(*report_) : blank_report(request_);
  if (run_) {
    run_->finish(end, report);
    if (report.steps == 0) add_earlier_work(report);  // Its workers had not come to a step yet.
  } else {
    cancel_waiting(report);
  }
  close(std::move(report));
}

// An earlier master may have let it train.
void MasterJob::cancel_waiting(Report& report) {
  add_earlier_work(report);
  report.status = RunStatus::kCancelled;
  report.reason = "cancelled by the user before it began";
  if (report.steps == 0) return;
  report.reason =
      fmt::format("cancelled by the user while it waited to go on after step {}", report.steps);
  auto recorder = Recorder::reopen(directory_, 0);
  if (!recorder.ok()) return;
  recorder->event("cancelled", "user", report.reason);
  report.events = recorder->events();
}

void MasterJob::add_earlier_work(Report& report) const {
  // One that runs has gone back to its point already, and may have gone on from there.
  cluster::add_earlier_work(report, directory_,
                            request_.resume && !run_ ? &*request_.resume : nullptr);
}

void MasterJob::end(Error error) {
  Report report = report_ ? std::move(*report_) : blank_report(request_);
  add_earlier_work(report);
  fail(report, std::move(error));
  close(std::move(report));
}

void MasterJob::close(Report report) {
  if (recorder_) report.events = recorder_->events();
  if (began_ != TimePoint{}) {
    report.wall_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  state_ = report.status == RunStatus::kFinished    ? JobState::kFinished
           : report.status == RunStatus::kConverged ? JobState::kConverged
           : report.status == RunStatus::kCancelled ? JobState::kCancelled
                                                    : JobState::kFailed;
  reason_ = report.reason;
  const Status written = write_report(directory_, report);
  if (!written.ok()) {
    reason_ += "; its report could not be written: " + written.error().message();
    // The next master must not take it for one that has not ended.
    const Status renamed = rename_accepted(directory_.path(), to_string(state_));
    if (!renamed.ok()) reason_ += "; " + renamed.error().message();
  }
  publish_({{"job", name()},
            {"kind", "ended"},
            {"state", to_string(state_)},
            {"detail", reason_},
            {"weights_hash", report.weights_hash}});
  run_.reset();
  recorder_.reset();
  store_.reset();
  lock_.reset();
}

void MasterJob::end_as(JobState state, std::string reason, const wire::Progress& progress) {
  state_ = state;
  reason_ = std::move(reason);
  if (progress.step() > 0) progress_ = progress;
}

void MasterJob::check() {
  before_ = std::exchange(state_, JobState::kQueued);
  checking_ = true;
}

void MasterJob::end_check(const std::optional<Error>& why) {
  checking_ = false;
  if (had_ended()) {
    state_ = before_;
  } else if (why) {
    end(*why);
  } else {
    end(EndJob{EndJob::How::kCancelled, -1, ""});
  }
}

Status MasterJob::go_back(const ResumePoint& point) {
  TANDEM_ASSIGN([[maybe_unused]] const RunLock lock, RunLock::take(directory_));
  TANDEM_TRY(go_back_to(directory_, point));
  return rename_accepted(directory_.path(), "");
}

Status MasterJob::note_cancel() const {
  Status noted = rename_accepted(directory_.path(), to_string(JobState::kCancelled));
  if (noted.ok()) return noted;
  return std::move(noted).error().within(
      fmt::format("{} is cancelled, but should this master be killed before it has ended, the next "
                  "one takes it up again",
                  name()));
}

void MasterJob::queue_again(ResumePoint point) {
  checking_ = false;
  request_.resume = std::move(point);
  state_ = JobState::kQueued;
  reason_.clear();
  report_.reset();
}

Json MasterJob::to_json(const Coordinator& coordinator) const {
  Json json = {{"id", name()},
               {"name", request_.parsed.job.name},
               {"state", to_string(state_)},
               {"priority", priority_},
               {"run_directory", directory_.path().string()},
               {"workers", {{"asked", asked_}, {"now", 0}}},
               {"lanes", request_.parsed.job.lanes()}};
  if (!reason_.empty()) json["reason"] = reason_;
  if (checking_) json["checking"] = true;
  if (const Team* team = coordinator.team(id_)) {
    json["workers"]["now"] = team->is_waiting() ? 0 : team->members();
    json["generation"] = team->generation();
    if (team->is_waiting()) json["waiting"] = true;
    if (team->wanted_servers() > 0)
      json["servers"] = {{"asked", team->wanted_servers()}, {"now", team->serving()}};
  }
  if (std::string why = coordinator.why_it_waits(id_); !why.empty())
    json["waits_because"] = std::move(why);
  if (const auto place = coordinator.place_in_queue(id_)) json["place_in_queue"] = *place;
  if (started_) json["total_steps"] = started_->total_steps();
  if (progress_) {
    json["progress"] = {
        {"step", progress_->step()},
        {"epoch", progress_->epoch()},
        {"samples", progress_->samples()},
        {"loss", progress_->loss()},
        {"lr", progress_->lr()},
        {"samples_per_s", progress_->train_s() > 0
                              ? static_cast<double>(progress_->samples()) / progress_->train_s()
                              : 0.0}};
  }
  return json;
}

}  // namespace tandem::cluster
