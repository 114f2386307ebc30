#include "cluster/run.h"

#include <fmt/format.h>

#include "base/file.h"
#include "cluster/changing_run.h"
#include "cluster/earlier_work.h"
#include "cluster/meeting.h"
#include "cluster/outcome.h"
#include "cluster/run_workers.h"
#include "cluster/summary.h"
#include "cluster/worker_command.h"

namespace tandem::cluster {
namespace {

// Records first, so that what a person was shown is on disk.
class Listener : public WorkerListener {
 public:
  Listener(Recorder& recorder, RunView& view) : recorder_(recorder), view_(view) {
    recorder_.set_warn([&view](const Event& event) { show(event, view); });
  }

  Status message(int worker, const wire::WorkerMessage& message) override {
    recorder_.message(static_cast<std::size_t>(worker), message);
    if (worker == 0) view_.message(message);
    return {};
  }
  Status line(int worker, Stream stream, std::string_view text) override {
    recorder_.line(static_cast<std::size_t>(worker), text);
    view_.line(worker, stream, text);
    return {};
  }
  void stopping(Order order, Cause cause) override { view_.stopping(order, cause); }
  void resumed() override { view_.resumed(); }
  void tick() override { view_.tick(); }

 private:
  Recorder& recorder_;
  RunView& view_;
};

// A rank that records nothing.
bool is_follower(const RunRequest& request) {
  return request.place.has_value() && request.place->rank > 0;
}

void record_resume(const ResumePoint& point, Recorder& recorder) {
  for (const std::string& refused : point.refused)
    recorder.event("checkpoint_damaged", "user", refused);
  recorder.event("resumed", "user", fmt::format("after step {}", point.step));
}

// Starts the workers, waits for their end and writes both into the report. An Error when there was
// nothing to wait for.
Status run_recorded(const RunRequest& request, const RunDirectory& directory,
                    const Meeting& meeting, SignalQueue& signals, RunView& view, Recorder& recorder,
                    Report& report) {
  std::vector<Command> commands;
  const std::size_t first =
      request.place.has_value() ? static_cast<std::size_t>(request.place->rank) : 0;
  LastWords said{recorder.words(), request.parsed, {}, first};
  for (int worker = 0; worker < meeting.workers(); ++worker) {
    commands.push_back(worker_command(request, directory));
    if (request.resume.has_value() && !request.resume->checkpoint.empty()) {
      commands.back().arguments.insert(commands.back().arguments.end(),
                                       {"--resume", request.resume->checkpoint.string()});
    }
    meeting.introduce(worker, commands.back());
    // A follower's directory does not outlive the run.
    said.log_paths.push_back(is_follower(request) ? "" : directory.worker_log(worker).string());
  }
  Listener listener(recorder, view);
  TANDEM_ASSIGN(const std::vector<WorkerEnd> ends,
                run_workers(commands, limits_of(request), signals, listener));
  report.workers = {request.parsed.job.cluster.workers, request.parsed.job.cluster.workers};
  add_traffic(report, recorder.words());
  for (const WorkerEnd& end : ends) report.sent.control += end.control_bytes;

  Outcome outcome = judge(ends, limits_of(request), said);
  if (outcome.lost) {
    --report.workers.end;
    view.lost(first + *outcome.lost, recorder.words()[*outcome.lost].last_lines);
  }
  report.status = outcome.status;
  report.reason = std::move(outcome.reason);
  report.error = std::move(outcome.error);
  add_work(report, recorder.words()[0], recorder.tested(), directory);
  if (outcome.lost) {
    recorder.event("lost", worker_name(first + *outcome.lost), report.reason);
  } else if (report.status == RunStatus::kCancelled) {
    recorder.event("cancelled", "user", report.reason);
  } else if (report.error.has_value() && report.error->code() == Code::kTimeout) {
    recorder.event("late", "node", report.reason);
  }
  return {};
}

// Whether nothing was trained because the job cannot be.
bool was_refused(const Report& report) {
  return report.steps == 0 && report.error.has_value() &&
         report.error->code() == Code::kInvalidArgument;
}

}  // namespace

void show(const Event& event, RunView& view) {
  wire::WorkerMessage message;
  message.mutable_event()->set_kind(event.kind);
  message.mutable_event()->set_detail(event.detail);
  view.message(message);
}

Report run(const RunRequest& request, const RunDirectory& directory, SignalQueue& signals,
           RunView& view) {
  const auto start = std::chrono::steady_clock::now();
  Report report = blank_report(request);
  const bool reopens = request.resume.has_value() && !is_follower(request);
  const Result<std::string> former_job = read_file(directory.job());
  const auto attempt = [&]() -> Status {
    if (reopens) TANDEM_TRY(go_back_to(directory, *request.resume));
    TANDEM_TRY(write_file_atomic(directory.job(), request.job_text));
    const bool changes = may_change(request);
    TANDEM_ASSIGN(const Meeting meeting, Meeting::create(request.parsed.job, request.place));
    const int workers = changes ? 0 : meeting.workers();
    TANDEM_ASSIGN(Recorder recorder, reopens ? Recorder::reopen(directory, workers)
                                             : Recorder::create(directory, workers));
    if (reopens) record_resume(*request.resume, recorder);
    Status status =
        changes ? run_changing(request, directory, signals, view, recorder, report)
                : run_recorded(request, directory, meeting, signals, view, recorder, report);
    report.events = recorder.events();
    return status;
  };
  // An error of the run itself says more than one of recording it.
  if (Status status = attempt(); !status.ok() && !report.error.has_value())
    fail(report, std::move(status).error());
  report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (reopens && was_refused(report)) {
    // The job does not go on from there: the run stays what it was.
    if (former_job.ok()) [[maybe_unused]]
      const Status kept = write_file_atomic(directory.job(), *former_job);
    restore_earlier_report(directory);
    return report;
  }
  // Its workers had not come to a step yet, or not told of it: checkpoints tell.
  if (report.steps == 0 && !is_follower(request)) {
    add_earlier_work(report, directory, nullptr);
    if (report.status == RunStatus::kCancelled && report.steps > 0)
      report.reason =
          fmt::format("cancelled by the user before it went on after step {}", report.steps);
  }
  if (Status status = write_report(directory, report); !status.ok()) {
    restore_earlier_report(directory);
    if (!report.error.has_value()) {
      fail(report,
           std::move(status).error().within("the run ended, but its report could not be written"));
    }
  }
  return report;
}

}  // namespace tandem::cluster
