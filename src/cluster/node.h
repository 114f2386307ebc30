// A node starts workers, watches them and ends them: one loop over their exits, control sockets,
// output and the user's signals. It never waits without a deadline, and when it returns the workers
// and whatever they started are gone.
//
// A worker reports on its control socket (wire/frame.h). Of what it prints, stdout is for the log
// and stderr for the user as well. It gets SIGTERM when it shall finish its step and end.
//
// Everything happens on the calling thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/child.h"
#include "cluster/signals.h"
#include "cluster/supervision.h"
#include "wire/frame.h"

namespace tandem::cluster {

enum class Stream : std::uint8_t { kOutput, kErrors };

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

// How a worker ended.
struct WorkerEnd {
  pid_t pid = -1;
  Exit exit;
  Cause cause = Cause::kNone;
  Order order = Order::kNothing;  // The strongest that it was given.
  std::optional<Error> failure;   // Cause::kFailure: of a listener, or what was wrong with a frame.
  std::uint64_t control_bytes = 0;  // Received on the control socket.
  bool started = false;             // It has said so.
};

// Starts the workers and returns when all have ended. When one ends before its work is done, the
// others have the time of Limits::follow to end too. An Error when one could not be started; then
// none is left.
Result<std::vector<WorkerEnd>> run_workers(std::span<const Command> commands, const Limits& limits,
                                           SignalQueue& signals, WorkerListener& listener);

}  // namespace tandem::cluster
