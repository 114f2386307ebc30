// What became of a run, from how its workers ended and what they had said: the decision table
// between a process and a report. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/node.h"
#include "cluster/report.h"
#include "cluster/words.h"
#include "job/parse.h"

namespace tandem::cluster {

struct Outcome {
  RunStatus status = RunStatus::kFailed;
  std::string reason;
  std::optional<Error> error;       // With kFailed.
  std::optional<std::size_t> lost;  // Which of the workers died without saying why.
};

// What the workers had said by their ends, and where the rest can be read.
struct LastWords {
  std::span<const Words> words;        // By worker.
  const job::ParsedJob& job;           // That a Failed's key is a key of.
  std::vector<std::string> log_paths;  // "": there is none.
  std::size_t first = 0;               // The number of the first of these workers in the whole run.
};

// "at step 7, epoch 2", or that there was none yet.
std::string place_of(const std::optional<wire::Progress>& progress);
// "; its end was not saved: ..." when a worker said so. Of a run that was cancelled.
std::string what_was_not_saved(std::span<const Words> words);
// "was killed by signal 9 (SIGKILL) at step 7, epoch 2".
std::string describe_end(const WorkerEnd& end, const Words& words);
// The same of a parameter server.
std::string describe_server_end(const WorkerEnd& end);
// That a worker failed because another did.
bool is_echo(const wire::Failed& words);
// The reverse of to_string(), for what a worker may say.
RunStatus status_named(std::string_view name);

// Of several workers that failed, the one that the others only missed is to blame.
Outcome judge(std::span<const WorkerEnd> ends, const Limits& limits, const LastWords& said);

}  // namespace tandem::cluster
