// A node starts workers, watches them and ends them: one turn after another over their exits,
// control sockets, output and the user's signals. It never waits without a deadline, and when it is
// destroyed the workers and whatever they started are gone.
//
// A worker reports on its control socket (wire/frame.h). Of what it prints, stdout is for the log
// and stderr for the user as well. It gets SIGTERM when it shall finish its step and end.
//
// Everything happens on the calling thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/child.h"
#include "cluster/signals.h"
#include "cluster/supervision.h"
#include "wire/frame.h"

namespace tandem::cluster {

enum class Stream : std::uint8_t { kOutput, kErrors };

// How a worker ended.
struct WorkerEnd {
  pid_t pid = -1;
  Exit exit;
  Cause cause = Cause::kNone;
  Order order = Order::kNothing;  // The strongest that it was given.
  std::optional<Error> failure;   // Cause::kFailure: of a listener, or what was wrong with a frame.
  std::uint64_t control_bytes = 0;  // Received on the control socket.
  bool started = false;             // It has said so.
  bool badly = false;               // Before its work was done.
};

// Whoever wants to know what workers do; they are numbered from 0. An Error ends the worker (and is
// in WorkerEnd).
class NodeListener {
 public:
  virtual ~NodeListener() = default;

  virtual Status message(int worker, const wire::WorkerMessage& message) = 0;
  // A line that the worker printed; the last one need not have ended in a newline.
  virtual Status line(int worker, Stream stream, std::string_view text) = 0;
  // The worker is gone, and everything that it wrote was told.
  virtual void ended(int worker, WorkerEnd end) = 0;
  // Called after the user suspended the run and let it go on.
  virtual void resumed() = 0;
};

class WatchedWorker;

class Node {
 public:
  Node(const Limits& limits, SignalQueue& signals, NodeListener& listener);
  // Kills what still runs.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // REQUIRES: no worker of this number runs.
  Status start(int worker, const Command& command) { return start(worker, command, limits_); }
  Status start(int worker, const Command& command, const Limits& limits);
  // A descriptor that ends the wait of turn(); whoever gives it reads it.
  void set_wakeup(int fd) { wakeup_ = fd; }
  // These do nothing when the worker has ended.
  void tell(int worker, const wire::WorkerMessage& message);
  // Asks it to end; the second time kills it.
  void stop(int worker, Cause cause);
  void kill(int worker);
  // Another one ended badly: it has a moment to notice and say so.
  void expect_end(int worker);

  bool is_idle() const { return workers_.empty(); }
  // The strongest order that a worker that runs was given, and why.
  std::pair<Order, Cause> strongest() const;

  enum class Signal : std::uint8_t { kNone, kStop };
  // Waits until something happens, for a fraction of a second at most and until `deadline`, tells
  // the listener of it, and returns whether the user wants an end.
  Signal turn(TimePoint deadline);

 private:
  Signal take_signals();
  void suspend();

  const Limits limits_;
  SignalQueue& signals_;
  NodeListener& listener_;
  int wakeup_ = -1;
  std::map<int, std::unique_ptr<WatchedWorker>> workers_;
  std::vector<pollfd> entries_;
};

}  // namespace tandem::cluster
