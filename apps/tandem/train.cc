#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>

#include "background_writer.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "cluster/meeting.h"
#include "cluster/run.h"
#include "commands.h"
#include "display.h"
#include "hosts.h"
#include "job/print.h"
#include "job_source.h"

namespace tandem::cli {
namespace {

// How long the end of a run waits for a terminal that nobody reads. What it would say is in the
// run directory.
constexpr std::chrono::seconds kFarewell{10};

DisplayStyle style_of(const Surroundings& around, Detail detail) {
  return {.live = around.terminal,
          .colour = around.colour,
          .charset = around.utf8 ? Charset::kUtf8 : Charset::kAscii,
          .detail = detail};
}

// The first rank of many shows and records the run; the others only say what goes wrong.
bool is_follower(const std::optional<collective::JoinOptions>& place) {
  return place.has_value() && place->rank > 0;
}

// What a launcher (mpirun, srun, ...) says of this process.
Result<std::optional<collective::JoinOptions>> find_place(const Surroundings& around) {
  return collective::join_options_from(
      [&](const std::string& name) { return environment_value(around.environment, name); });
}

// The job's overrides, and as many workers as a launcher started ranks.
std::vector<std::string> overrides_of(const TrainOptions& options,
                                      const std::optional<collective::JoinOptions>& place) {
  std::vector<std::string> overrides = options.overrides;
  if (place.has_value()) overrides.push_back(fmt::format("cluster.workers={}", place->size));
  return overrides;
}

// What the job adds to a place.
void complete(std::optional<collective::JoinOptions>& place, const job::Job& job,
              const std::string& job_text) {
  if (!place.has_value()) return;
  if (job.cluster.engine != "auto") place->engine = job.cluster.engine;
  // Without a secret, ranks of different jobs at least do not mix.
  if (place->token.empty()) place->token = hash_hex(std::as_bytes(std::span(job_text)));
}

// A directory for the run; for a dry run, and for ranks that record nothing, a temporary one, which
// `temporary` keeps until the end.
Result<cluster::RunDirectory> make_directory(const TrainOptions& options,
                                             const cluster::RunRequest& request,
                                             std::optional<cluster::TemporaryRun>& temporary) {
  if (options.dry_run && !options.out.empty() && !request.resume.has_value())
    TANDEM_TRY(cluster::RunDirectory::check_free(options.out));
  if (options.dry_run || is_follower(request.place)) {
    TANDEM_ASSIGN(cluster::TemporaryRun created, cluster::TemporaryRun::create());
    temporary.emplace(std::move(created));
    return temporary->directory();
  }
  if (!options.run.empty()) return cluster::RunDirectory::open(options.run);
  if (request.resume.has_value()) return cluster::RunDirectory::open(options.out);
  if (!options.out.empty()) return cluster::RunDirectory::create_at(options.out);
  return cluster::RunDirectory::create_next("runs", request.parsed.job.name);
}

void print_result(const TrainOptions& options, const cluster::Report& report,
                  const cluster::RunDirectory& directory) {
  if (options.format == Format::kJson) {
    print_out(cluster::to_json(report));
  } else if (!options.dry_run) {
    print_out(directory.path().string() + "\n");
  }
}

// The last words on standard error: the summary, the error, what a dry run means.
void say_goodbye(const TrainOptions& options, const Surroundings& around,
                 const cluster::Report& report, const cluster::RunDirectory& directory,
                 Display& display, BackgroundWriter& writer) {
  display.summary(report, options.dry_run ? std::string() : directory.path().string());
  if (report.error.has_value()) {
    writer.write(Weight::kLast, error_text(around, *report.error));
  } else if (options.dry_run && options.detail != Detail::kQuiet) {
    writer.write(Weight::kLast,
                 "dry run: one step of everything worked; without --dry-run the whole job would be "
                 "trained\n");
  }
  writer.finish(kFarewell);
}

// Where a run goes on, if it does: `tandem resume`, or `tandem train --resume` with a directory
// that holds a run. One that has no checkpoint yet starts again.
Result<std::optional<cluster::ResumePoint>> find_resume(const TrainOptions& options) {
  if (!options.run.empty()) {
    TANDEM_ASSIGN(const auto directory, cluster::RunDirectory::open(options.run));
    TANDEM_ASSIGN(cluster::ResumePoint point, cluster::find_resume_point(directory, options.step));
    return std::optional(std::move(point));
  }
  const auto directory = cluster::RunDirectory::open(options.out);
  if (!options.resume || !directory.ok()) return std::optional<cluster::ResumePoint>();
  TANDEM_ASSIGN(const bool any, cluster::has_checkpoints(*directory));
  if (!any) return std::optional(cluster::ResumePoint{});
  TANDEM_ASSIGN(cluster::ResumePoint point, cluster::find_resume_point(*directory, std::nullopt));
  return std::optional(std::move(point));
}

Result<int> run_job(const TrainOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(std::optional<collective::JoinOptions> place, find_place(around));
  TANDEM_ASSIGN(std::optional<cluster::ResumePoint> resume, find_resume(options));
  const std::string job_file = options.run.empty()
                                   ? options.job
                                   : (std::filesystem::path(options.run) / "job.toml").string();
  TANDEM_ASSIGN(LoadedJob loaded, load_job(job_file, overrides_of(options, place)));
  // What a job.toml in a run directory names is where it was when the run began.
  if (!options.run.empty()) loaded.base_directory = resume->base_directory;
  if (!is_follower(place)) warn_of_idle_settings(loaded.parsed.job, around);
  const std::string text = job::print(loaded.parsed.job);
  complete(place, loaded.parsed.job, text);
  if (options.print_job) {
    print_out(text);
    return 0;
  }
  TANDEM_TRY(cluster::Meeting::check(loaded.parsed.job, place));
  cluster::RunRequest request;
  request.parsed = std::move(loaded.parsed);
  request.job_text = text;
  request.base_directory = loaded.base_directory;
  TANDEM_ASSIGN(request.worker_program, around.find_worker(options.worker_binary));
  request.environment = around.environment;
  request.kernels = best_kernels(detect_cpu());
  request.limits = options.limits;
  request.rehearsal = options.dry_run ? cluster::Rehearsal::kDryRun : cluster::Rehearsal::kNo;
  request.version = around.version;
  request.place = place;
  request.resume = std::move(resume);

  // From here on Ctrl-C ends the run in order, so that even a temporary directory is removed.
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  std::optional<cluster::TemporaryRun> temporary;
  TANDEM_ASSIGN(const cluster::RunDirectory directory, make_directory(options, request, temporary));
  TANDEM_ASSIGN([[maybe_unused]] const cluster::RunLock lock, cluster::RunLock::take(directory));
  BackgroundWriter writer(STDERR_FILENO);
  Display display(
      request.parsed.job, request.kernels,
      style_of(around, is_follower(place) ? Detail::kQuiet : options.detail),
      {[&writer](Weight weight, std::string_view shown) { return writer.write(weight, shown); },
       [] { return std::chrono::steady_clock::now(); }, terminal_width});
  if (request.resume && !is_follower(place)) {
    for (const std::string& refused : request.resume->refused)
      writer.write(Weight::kLine, fmt::format("warning: {}\n", refused));
  }
  const cluster::Report report = cluster::run(request, directory, signals, display);
  say_goodbye(options, around, report, directory, display, writer);
  if (!is_follower(place)) print_result(options, report, directory);
  // A launcher kills all ranks when one fails, and the first is still writing its report.
  if (is_follower(place) && report.status == cluster::RunStatus::kCancelled) return 0;
  return cluster::exit_code(report);
}

}  // namespace

int train(const TrainOptions& options, const Surroundings& around) {
  // A run goes on when nobody reads its progress any more.
  std::signal(SIGPIPE, SIG_IGN);
  const bool remote = !options.hosts.empty() && !options.print_job;
  const Result<int> code = remote ? train_on_hosts(options, around) : run_job(options, around);
  if (code.ok()) return *code;
  print_error(around, code.error());
  return exit_code(code.error().code());
}

}  // namespace tandem::cli
