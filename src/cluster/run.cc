#include "cluster/run.h"

#include <fmt/format.h>

#include <ctime>

#include "base/file.h"
#include "base/hash.h"
#include "cluster/environment.h"
#include "cluster/meeting.h"
#include "cluster/outcome.h"

namespace tandem::cluster {
namespace {

// Records first, so that what a person was shown is on disk.
class Listener : public WorkerListener {
 public:
  Listener(Recorder& recorder, RunView& view) : recorder_(recorder), view_(view) {}

  Status message(int worker, const wire::WorkerMessage& message) override {
    Status status = recorder_.message(static_cast<std::size_t>(worker), message);
    if (worker == 0) view_.message(message);
    return status;
  }
  Status line(int worker, Stream stream, std::string_view text) override {
    Status status = recorder_.line(static_cast<std::size_t>(worker), text);
    view_.line(worker, stream, text);
    return status;
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

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, length);
}

Report blank_report(const RunRequest& request) {
  Report report;
  const job::Job& job = request.parsed.job;
  report.name = job.name;
  report.strategy = job.cluster.strategy;
  report.lanes = job.lanes();
  report.job_hash = hash_hex(std::as_bytes(std::span(request.job_text)));
  report.base_directory = request.base_directory;
  report.kernels = request.kernels;
  report.threads = job.train.threads;
  report.started_at = utc_now();
  report.version = request.version;
  return report;
}

Command worker_command(const RunRequest& request, const RunDirectory& directory) {
  Command command;
  command.program = request.worker_program;
  command.arguments = {"train",
                       "--run",
                       directory.path().string(),
                       "--control",
                       std::to_string(kControlDescriptor),
                       "--base-directory",
                       request.base_directory.string()};
  // Shorter than what the node allows, so that the worker can still say who did not come.
  const auto join = std::chrono::duration<double>(request.limits.start) * 0.6;
  command.arguments.insert(command.arguments.end(),
                           {"--join-timeout", fmt::format("{:.3f}", join.count())});
  if (request.resume.has_value() && !request.resume->checkpoint.empty())
    command.arguments.insert(command.arguments.end(),
                             {"--resume", request.resume->checkpoint.string()});
  if (request.rehearsal == Rehearsal::kDryRun) command.arguments.emplace_back("--dry-run");
  command.environment =
      worker_environment(request.environment, request.kernels, request.parsed.job.train.threads);
  return command;
}

// A worker that waits for another says nothing, and must be the one to say who is late.
Limits limits_of(const RunRequest& request) {
  constexpr std::chrono::seconds kWords{5};
  Limits limits = request.limits;
  const job::Cluster& cluster = request.parsed.job.cluster;
  const std::chrono::duration<double> patience(cluster.timeout_s);
  if (cluster.workers > 1) {
    limits.silence = std::max(
        limits.silence, std::chrono::duration_cast<std::chrono::milliseconds>(patience) + kWords);
  }
  return limits;
}

void fail(Report& report, Error error) {
  report.status = RunStatus::kFailed;
  report.reason = error.message();
  report.error = std::move(error);
}

// The path from inside the run directory, so that the directory can be moved; any other path as it
// is.
std::string inside(const RunDirectory& directory, const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path relative = std::filesystem::proximate(path, directory.path(), error);
  return error || relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

// What was done: as the first worker summed it up, or as far as it had told.
void add_work(Report& report, const Recorder& recorder, const RunDirectory& directory) {
  const Words& words = recorder.words()[0];
  if (const auto& finished = words.finished) {
    report.steps = finished->steps();
    report.epochs = finished->epochs();
    report.samples = finished->samples();
    report.train_s = finished->train_s();
    report.weights_hash = finished->weights_hash();
    report.model = inside(directory, finished->model_path());
    if (finished->has_eval()) {
      report.evaluation = Evaluation{finished->loss(), std::nullopt};
      if (finished->has_accuracy()) report.evaluation->accuracy = finished->accuracy();
    }
    return;
  }
  if (const auto& progress = words.progress) {
    report.steps = progress->step();
    report.epochs = progress->epoch();
    report.samples = progress->samples();
    report.train_s = progress->train_s();
  }
  if (const auto& tested = recorder.tested()) {
    report.evaluation = Evaluation{tested->loss(), std::nullopt};
    if (tested->has_accuracy()) report.evaluation->accuracy = tested->accuracy();
  }
}

// Bytes that the workers told of, and those of their control sockets.
void add_traffic(Report& report, const Recorder& recorder, std::span<const WorkerEnd> ends) {
  for (const Words& words : recorder.words()) {
    if (!words.finished.has_value()) continue;
    report.sent.gradients += words.finished->bytes_sent();
    report.received.gradients += words.finished->bytes_received();
    report.engine = words.finished->engine();
  }
  for (const WorkerEnd& end : ends) report.sent.control += end.control_bytes;
}

Status record_resume(const ResumePoint& point, Recorder& recorder) {
  for (const std::string& refused : point.refused)
    TANDEM_TRY(recorder.event("checkpoint_damaged", "user", refused));
  return recorder.event("resumed", "user", fmt::format("after step {}", point.step));
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
    meeting.introduce(worker, commands.back());
    // A follower's directory does not outlive the run.
    said.log_paths.push_back(is_follower(request) ? "" : directory.worker_log(worker).string());
  }
  Listener listener(recorder, view);
  TANDEM_ASSIGN(const std::vector<WorkerEnd> ends,
                run_workers(commands, limits_of(request), signals, listener));
  report.workers = {request.parsed.job.cluster.workers, request.parsed.job.cluster.workers};
  add_traffic(report, recorder, ends);

  Outcome outcome = judge(ends, limits_of(request), said);
  if (outcome.lost) {
    --report.workers.end;
    view.lost(first + *outcome.lost, recorder.words()[*outcome.lost].last_lines);
  }
  report.status = outcome.status;
  report.reason = std::move(outcome.reason);
  report.error = std::move(outcome.error);
  add_work(report, recorder, directory);
  if (outcome.lost)
    return recorder.event("lost", worker_name(first + *outcome.lost), report.reason);
  if (report.status == RunStatus::kCancelled)
    return recorder.event("cancelled", "user", report.reason);
  if (report.error.has_value() && report.error->code() == Code::kTimeout)
    return recorder.event("late", "node", report.reason);
  return {};
}

}  // namespace

Report run(const RunRequest& request, const RunDirectory& directory, SignalQueue& signals,
           RunView& view) {
  const auto start = std::chrono::steady_clock::now();
  Report report = blank_report(request);
  const auto attempt = [&]() -> Status {
    const bool reopens = request.resume.has_value() && !is_follower(request);
    if (reopens) TANDEM_TRY(go_back_to(directory, *request.resume));
    TANDEM_TRY(write_file_atomic(directory.job(), request.job_text));
    TANDEM_ASSIGN(const Meeting meeting,
                  Meeting::create(request.parsed.job.cluster, request.place));
    TANDEM_ASSIGN(Recorder recorder, reopens ? Recorder::reopen(directory, meeting.workers())
                                             : Recorder::create(directory, meeting.workers()));
    if (reopens) TANDEM_TRY(record_resume(*request.resume, recorder));
    Status status = run_recorded(request, directory, meeting, signals, view, recorder, report);
    report.events = recorder.events();
    return status;
  };
  // An error of the run itself says more than one of recording it.
  if (Status status = attempt(); !status.ok() && !report.error.has_value())
    fail(report, std::move(status).error());
  report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (Status status = write_file_atomic(directory.report(), to_json(report));
      !status.ok() && !report.error.has_value()) {
    fail(report,
         std::move(status).error().within("the run ended, but its report could not be written"));
  }
  return report;
}

}  // namespace tandem::cluster
