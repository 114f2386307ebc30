// A node starts one worker, watches it and ends it: one loop over its exit, its control socket, its
// output and the user's signals. It never waits without a deadline, and when it returns the worker
// and whatever it started are gone.
//
// A worker reports on its control socket (wire/frame.h). Of what it prints, stdout is for the log
// and stderr for the user as well. It gets SIGTERM when it shall finish its step and end.
//
// Everything happens on the calling thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "cluster/child.h"
#include "cluster/signals.h"
#include "cluster/supervision.h"
#include "wire/frame.h"

namespace tandem::cluster {

enum class Stream : std::uint8_t { kOutput, kErrors };

// Whoever wants to know what a worker does. An Error ends the worker (and is in WorkerEnd).
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;

  virtual Status message(const wire::WorkerMessage& message) = 0;
  // A line that the worker printed; the last one need not have ended in a newline.
  virtual Status line(Stream stream, std::string_view text) = 0;
  // The worker was sent SIGTERM (kTerminate) or SIGKILL (kKill).
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
  std::optional<Error> failure;  // Cause::kFailure: of a listener, or what was wrong with a frame.
  std::uint64_t control_bytes = 0;  // Received on the control socket.
};

// Starts the worker and returns when it has ended. An Error when it could not be started.
Result<WorkerEnd> run_worker(const Command& command, const Limits& limits, SignalQueue& signals,
                             WorkerListener& listener);

}  // namespace tandem::cluster
