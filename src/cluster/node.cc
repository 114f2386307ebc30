#include "cluster/node.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "cluster/watched_worker.h"

namespace tandem::cluster {
namespace {

using std::chrono::steady_clock;

// How often a listener may redraw.
constexpr std::chrono::milliseconds kTick{200};

class Watch {
 public:
  Watch(std::vector<WatchedWorker> workers, SignalQueue& signals, WorkerListener& listener)
      : workers_(std::move(workers)), signals_(signals), listener_(listener) {}

  std::vector<WorkerEnd> run();

 private:
  void wait();
  void take_signals();
  void suspend();
  void tell_others();
  void announce();

  std::vector<WatchedWorker> workers_;
  SignalQueue& signals_;
  WorkerListener& listener_;
  std::vector<pollfd> entries_;
  bool told_ = false;  // The others, of one that ended badly.
  Order announced_ = Order::kNothing;
};

std::vector<WorkerEnd> Watch::run() {
  while (!std::all_of(workers_.begin(), workers_.end(),
                      [](const WatchedWorker& worker) { return worker.has_ended(); })) {
    wait();
    take_signals();
    for (WatchedWorker& worker : workers_) worker.look();
    tell_others();
    announce();
    listener_.tick();
  }
  std::vector<WorkerEnd> ends;
  for (WatchedWorker& worker : workers_) ends.push_back(std::move(worker).take_end());
  return ends;
}

// Sleeps until something happens or a deadline passes.
void Watch::wait() {
  entries_.assign(1, {signals_.fd(), POLLIN, 0});
  TimePoint deadline = TimePoint::max();
  for (const WatchedWorker& worker : workers_) {
    worker.add_descriptors(entries_);
    deadline = std::min(deadline, worker.deadline());
  }
  const auto left =
      std::clamp(std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()),
                 std::chrono::milliseconds(0), kTick);
  // An interrupted or failed poll only means that the descriptors are looked at now.
  ::poll(entries_.data(), entries_.size(), static_cast<int>(left.count()));
}

void Watch::take_signals() {
  while (const std::optional<int> number = signals_.take()) {
    if (*number == SIGTSTP) {
      suspend();
    } else {
      for (WatchedWorker& worker : workers_) worker.stop(Cause::kCancelled);
    }
  }
}

// Ctrl-Z: the workers, which are in other process groups, stop and go on together with us.
void Watch::suspend() {
  for (const WatchedWorker& worker : workers_) worker.suspend();
  ::raise(SIGSTOP);
  for (WatchedWorker& worker : workers_) worker.resume();
  listener_.resumed();
}

// One that is gone is missed by the others, who end by themselves and say how far they were.
void Watch::tell_others() {
  const bool bad = std::any_of(workers_.begin(), workers_.end(),
                               [](const WatchedWorker& worker) { return worker.ended_badly(); });
  if (!bad || told_) return;
  told_ = true;
  for (WatchedWorker& worker : workers_) worker.expect_end();
}

// Once for all workers.
void Watch::announce() {
  for (const WatchedWorker& worker : workers_) {
    if (worker.order() <= announced_) continue;
    announced_ = worker.order();
    listener_.stopping(announced_, worker.cause());
  }
}

}  // namespace

Result<std::vector<WorkerEnd>> run_workers(std::span<const Command> commands, const Limits& limits,
                                           SignalQueue& signals, WorkerListener& listener) {
  std::vector<WatchedWorker> workers;
  for (const Command& command : commands) {
    TANDEM_ASSIGN(Child child, Child::start(command));
    workers.emplace_back(static_cast<int>(workers.size()), std::move(child), command.first_line,
                         limits, listener);
  }
  return Watch(std::move(workers), signals, listener).run();
}

}  // namespace tandem::cluster
