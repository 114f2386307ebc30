// A fixed set of workers from their start to their end, through a node. Everything happens on the
// calling thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/node.h"

namespace tandem::cluster {

// Whoever wants to know what workers do; they are numbered from 0. An Error ends the worker (and is
// in WorkerEnd).
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;

  virtual Status message(int worker, const wire::WorkerMessage& message) = 0;
  // A line that the worker printed; the last one need not have ended in a newline.
  virtual Status line(int worker, Stream stream, std::string_view text) = 0;
  // Workers were sent SIGTERM (kTerminate) or SIGKILL (kKill); told once of each.
  virtual void stopping(Order order, Cause cause) = 0;
  // Called after the user suspended the run and let it go on.
  virtual void resumed() = 0;
  // Called a few times a second.
  virtual void tick() = 0;
};

// Starts the workers and returns when all have ended. When one ends before its work is done, the
// others have the time of Limits::follow to end too. An Error when one could not be started; then
// none is left.
Result<std::vector<WorkerEnd>> run_workers(std::span<const Command> commands, const Limits& limits,
                                           SignalQueue& signals, WorkerListener& listener);

}  // namespace tandem::cluster
