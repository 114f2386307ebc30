#include "cluster/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/text.h"

namespace tandem::cluster {
namespace {

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

Outcome failed(Error error) {
  return {RunStatus::kFailed, error.message(), error, std::nullopt};
}

// What the worker says of a key is shown at the user's own text: job.toml in the run directory,
// which the worker reads, is a copy with other lines.
Outcome failed(const wire::Failed& words, const job::ParsedJob& job) {
  const std::string message =
      words.key().empty() ? words.message() : job::point_at(job, words.key(), words.message(), "");
  return {RunStatus::kFailed, words.message(), Error(code_named(words.code()), message),
          std::nullopt};
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

// One worker as the messages below need it.
struct Subject {
  std::size_t index;   // Among the workers of this node.
  std::size_t number;  // Among all.
  const WorkerEnd& end;
  const Words& words;
  const std::string& log_path;

  std::string name() const { return fmt::format("{} (pid {})", worker_name(number), end.pid); }
  // Where to read more, as the last sentence of a message.
  std::string log() const {
    return log_path.empty() ? "" : fmt::format(" Its log is {}", log_path);
  }
};

Outcome timed_out(const Subject& worker, const Limits& limits) {
  if (worker.end.cause == Cause::kStartTimeout) {
    return failed(
        Error(Code::kTimeout,
              fmt::format("{} had not loaded its job and data after {} and was killed.\n"
                          "If the data is large, give it longer with --start-timeout.{}",
                          worker.name(), human_seconds(seconds(limits.start)), worker.log())));
  }
  return failed(Error(Code::kTimeout,
                      fmt::format("{} said nothing for {} {} and was killed.\n"
                                  "If a step takes that long, give it longer with --timeout.{}",
                                  worker.name(), human_seconds(seconds(limits.silence)),
                                  place_of(worker.words.progress), worker.log())));
}

Outcome lost(const Subject& worker, const std::string& witness) {
  const std::string who = worker.name();
  const Exit& exit = worker.end.exit;
  Outcome outcome;
  if (worker.end.order == Order::kKill) {
    outcome = failed(Error(
        Code::kTimeout,
        fmt::format("{} {} was late and was killed: the others waited for it until their "
                    "time-out.\n{}It was not dead, but stopped, or on a machine with too much to "
                    "do? Give it longer with cluster.timeout_s.{}",
                    who, place_of(worker.words.progress), witness, worker.log())));
  } else if (exit.by_signal) {
    outcome =
        failed(Error(Code::kPeerLost,
                     fmt::format("{} was killed by signal {} ({}) {}.\n{}{}.{}", who, exit.number,
                                 signal_name(exit.number), place_of(worker.words.progress), witness,
                                 advice(exit.number), worker.log())));
  } else {
    outcome = failed(
        Error(Code::kPeerLost,
              fmt::format("{} ended with exit code {} {} without reporting a result.\n{}{}", who,
                          exit.number, place_of(worker.words.progress), witness, worker.log())));
  }
  outcome.lost = worker.index;
  return outcome;
}

// What another worker said when it missed the lost one: it knows the step and the bucket.
std::string witness_of(const LastWords& said) {
  for (std::size_t i = 0; i < said.words.size(); ++i) {
    const auto& failed = said.words[i].failed;
    if (failed.has_value())
      return fmt::format("{} says: {}.\n", worker_name(said.first + i), failed->message());
  }
  return "";
}

// All ended; every worker must have come to the same weights.
Outcome finished(std::span<const Words> words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].finished->weights_hash() == words[0].finished->weights_hash()) continue;
    return failed(
        Error(Code::kInternal,
              fmt::format("{} ended with other weights ({}) than worker 0 ({}): this is a "
                          "bug in Tandem; please report it with the job",
                          worker_name(i), words[i].finished->weights_hash(),
                          words[0].finished->weights_hash())));
  }
  return {status_named(words[0].finished->status()), words[0].finished->reason(), std::nullopt,
          std::nullopt};
}

std::string describe_exit(const Exit& exit) {
  return exit.by_signal
             ? fmt::format("was killed by signal {} ({})", exit.number, signal_name(exit.number))
             : fmt::format("ended with exit code {}", exit.number);
}

}  // namespace

std::string place_of(const std::optional<wire::Progress>& progress) {
  if (!progress.has_value()) return "before its first step";
  return fmt::format("at step {}, epoch {}", progress->step(), progress->epoch() + 1);
}

std::string describe_end(const WorkerEnd& end, const Words& words) {
  const std::string place = place_of(words.progress);
  if (end.cause == Cause::kSilence)
    return fmt::format("said nothing for too long {} and was killed", place);
  if (end.cause == Cause::kStartTimeout) return "did not load its job and data in time";
  return fmt::format("{} {}", describe_exit(end.exit), place);
}

std::string describe_server_end(const WorkerEnd& end) {
  if (end.cause == Cause::kSilence) return "said nothing for too long and was killed";
  if (end.cause == Cause::kStartTimeout) return "did not listen in time";
  return describe_exit(end.exit);
}

bool is_echo(const wire::Failed& words) {
  const Code code = code_named(words.code());
  return code == Code::kPeerLost || code == Code::kTimeout;
}

RunStatus status_named(std::string_view name) {
  if (name == "converged") return RunStatus::kConverged;
  if (name == "cancelled") return RunStatus::kCancelled;
  return RunStatus::kFinished;
}

std::string what_was_not_saved(std::span<const Words> words) {
  for (const Words& each : words) {
    if (!each.failed || each.failed->code() == to_string(Code::kCancelled) || is_echo(*each.failed))
      continue;
    return fmt::format(
        "; its end was not saved, `tandem resume` goes on from the last checkpoint: {}",
        each.failed->message());
  }
  return "";
}

Outcome judge(std::span<const WorkerEnd> ends, const Limits& limits, const LastWords& said) {
  const auto subject = [&](std::size_t i) {
    return Subject{i, said.first + i, ends[i], said.words[i], said.log_paths[i]};
  };
  // What could not be recorded makes the run's files incomplete, whatever the workers reached.
  for (const WorkerEnd& end : ends) {
    if (end.failure.has_value()) return failed(*end.failure);
  }
  if (std::all_of(said.words.begin(), said.words.end(),
                  [](const Words& words) { return words.finished.has_value(); }))
    return finished(said.words);
  // A worker that fails because it was told to end did not fail.
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].cause != Cause::kCancelled) continue;
    return {RunStatus::kCancelled,
            fmt::format("cancelled by the user {}{}", place_of(said.words[0].progress),
                        what_was_not_saved(said.words)),
            std::nullopt, std::nullopt};
  }
  for (const Words& words : said.words) {
    if (words.failed.has_value() && !is_echo(*words.failed)) return failed(*words.failed, said.job);
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].cause == Cause::kStartTimeout || ends[i].cause == Cause::kSilence)
      return timed_out(subject(i), limits);
  }
  // Of those that said nothing, one that the node killed was only waited for.
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool silent = !said.words[i].finished.has_value() && !said.words[i].failed.has_value();
    if (silent && ends[i].order != Order::kKill) return lost(subject(i), witness_of(said));
  }
  for (const Words& words : said.words) {
    if (words.failed.has_value()) return failed(*words.failed, said.job);
  }
  return lost(subject(0), "");
}

}  // namespace tandem::cluster
