// What became of a run, from how its worker ended and what it had said: the decision table between
// a process and a report. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cluster/node.h"
#include "cluster/report.h"
#include "job/parse.h"

namespace tandem::cluster {

struct Outcome {
  RunStatus status = RunStatus::kFailed;
  std::string reason;
  std::optional<Error> error;  // With kFailed.
  bool lost = false;           // The worker died without saying why.
};

// What the worker had said by its end, and where the rest can be read.
struct LastWords {
  const std::optional<wire::Progress>& progress;
  const std::optional<wire::Finished>& finished;
  const std::optional<wire::Failed>& failed;
  const job::ParsedJob& job;  // That a Failed's key is a key of.
  std::string log_path;
};

Outcome judge(const WorkerEnd& end, const Limits& limits, const LastWords& words);

}  // namespace tandem::cluster
