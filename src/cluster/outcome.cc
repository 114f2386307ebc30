#include "cluster/outcome.h"

#include <fmt/format.h>

#include <csignal>

#include "base/text.h"

namespace tandem::cluster {
namespace {

std::string place(const std::optional<wire::Progress>& progress) {
  if (!progress.has_value()) return "before its first step";
  return fmt::format("at step {}, epoch {}", progress->step(), progress->epoch() + 1);
}

std::string_view advice(int signal) {
  switch (signal) {
    case SIGKILL:
      return "If nobody killed it by hand, the machine ran out of memory: look for it in `dmesg`, "
             "and try a smaller "
             "train.batch or model";
    case SIGILL:
      return "It used an instruction that this processor does not have: run `tandem doctor`";
    case SIGBUS:
      return "A file that it had mapped became shorter, or the memory behind /dev/shm is full: run "
             "`tandem doctor`";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
      return "Somebody ended it from outside; start the run again";
    default:
      return "This is a bug in Tandem or in a library: please report it with the log";
  }
}

Code code_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    if (to_string(static_cast<Code>(i)) == name) return static_cast<Code>(i);
  }
  return Code::kInternal;
}

RunStatus status_named(std::string_view name) {
  if (name == "converged") return RunStatus::kConverged;
  if (name == "cancelled") return RunStatus::kCancelled;
  return RunStatus::kFinished;
}

Outcome failed(Error error) {
  return {RunStatus::kFailed, error.message(), error, false};
}

// What the worker says of a key is shown at the user's own text: job.toml in the run directory,
// which the worker reads, is a copy with other lines.
Outcome failed(const wire::Failed& words, const job::ParsedJob& job) {
  const std::string message =
      words.key().empty() ? words.message() : job::point_at(job, words.key(), words.message(), "");
  return {RunStatus::kFailed, words.message(), Error(code_named(words.code()), message), false};
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

Outcome timed_out(const WorkerEnd& end, const Limits& limits, const LastWords& words) {
  if (end.cause == Cause::kStartTimeout) {
    return failed(Error(
        Code::kTimeout,
        fmt::format("{} (pid {}) had not loaded its job and data after {} and was killed.\n"
                    "If the data is large, give it longer with --start-timeout; its log is {}",
                    kWorkerName, end.pid, human_seconds(seconds(limits.start)), words.log_path)));
  }
  return failed(
      Error(Code::kTimeout,
            fmt::format("{} (pid {}) said nothing for {} {} and was killed.\n"
                        "If a step takes that long, give it longer with --timeout; its log is {}",
                        kWorkerName, end.pid, human_seconds(seconds(limits.silence)),
                        place(words.progress), words.log_path)));
}

Outcome lost(const WorkerEnd& end, const LastWords& words) {
  const std::string who = fmt::format("{} (pid {})", kWorkerName, end.pid);
  Outcome outcome;
  if (end.exit.by_signal) {
    outcome =
        failed(Error(Code::kPeerLost,
                     fmt::format("{} was killed by signal {} ({}) {}.\n{}. Its log is {}", who,
                                 end.exit.number, signal_name(end.exit.number),
                                 place(words.progress), advice(end.exit.number), words.log_path)));
  } else {
    outcome = failed(Error(
        Code::kPeerLost,
        fmt::format("{} ended with exit code {} {} without reporting a result.\nIts log is {}", who,
                    end.exit.number, place(words.progress), words.log_path)));
  }
  outcome.lost = true;
  return outcome;
}

}  // namespace

Outcome judge(const WorkerEnd& end, const Limits& limits, const LastWords& words) {
  // What could not be recorded makes the run's files incomplete, whatever the worker reached.
  if (end.failure.has_value()) return failed(*end.failure);
  if (words.finished.has_value()) {
    return {status_named(words.finished->status()), words.finished->reason(), std::nullopt, false};
  }
  // A worker that fails because it was told to end did not fail.
  if (end.cause == Cause::kCancelled) {
    return {RunStatus::kCancelled, fmt::format("cancelled by the user {}", place(words.progress)),
            std::nullopt, false};
  }
  if (words.failed.has_value()) return failed(*words.failed, words.job);
  if (end.cause == Cause::kStartTimeout || end.cause == Cause::kSilence)
    return timed_out(end, limits, words);
  return lost(end, words);
}

}  // namespace tandem::cluster
