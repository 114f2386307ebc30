#include "cluster/node.h"

#include <algorithm>
#include <csignal>

#include "base/check.h"
#include "cluster/watched_worker.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often whoever listens may redraw.
constexpr milliseconds kTick{200};

}  // namespace

Node::Node(const Limits& limits, SignalQueue& signals, NodeListener& listener)
    : limits_(limits), signals_(signals), listener_(listener) {}

Node::~Node() = default;

Status Node::start(int worker, const Command& command, const Limits& limits) {
  TANDEM_CHECK(!workers_.contains(worker));
  TANDEM_ASSIGN(Child child, Child::start(command));
  workers_[worker] = std::make_unique<WatchedWorker>(worker, std::move(child), command.first_line,
                                                     limits, listener_);
  return {};
}

void Node::tell(int worker, const wire::WorkerMessage& message) {
  if (const auto found = workers_.find(worker); found != workers_.end())
    found->second->tell(message);
}

void Node::stop(int worker, Cause cause) {
  if (const auto found = workers_.find(worker); found != workers_.end()) found->second->stop(cause);
}

void Node::kill(int worker) {
  if (const auto found = workers_.find(worker); found != workers_.end()) found->second->kill();
}

void Node::expect_end(int worker) {
  if (const auto found = workers_.find(worker); found != workers_.end())
    found->second->expect_end();
}

std::pair<Order, Cause> Node::strongest() const {
  std::pair<Order, Cause> strongest{Order::kNothing, Cause::kNone};
  for (const auto& [number, worker] : workers_) {
    if (worker->order() > strongest.first) strongest = {worker->order(), worker->cause()};
  }
  return strongest;
}

Node::Signal Node::turn(TimePoint deadline) {
  entries_.assign(1, {signals_.fd(), POLLIN, 0});
  if (wakeup_ >= 0) entries_.push_back({wakeup_, POLLIN, 0});
  for (const auto& [number, worker] : workers_) {
    worker->add_descriptors(entries_);
    deadline = std::min(deadline, worker->deadline());
  }
  const auto left = std::clamp(std::chrono::ceil<milliseconds>(deadline - steady_clock::now()),
                               milliseconds(0), kTick);
  // An interrupted or failed poll only means that the descriptors are looked at now.
  ::poll(entries_.data(), entries_.size(), static_cast<int>(left.count()));
  const Signal signal = take_signals();
  for (auto& [number, worker] : workers_) worker->look();
  // A listener may start others when it hears of an end, so the list is walked anew for each.
  for (;;) {
    const auto ended = std::find_if(workers_.begin(), workers_.end(),
                                    [](const auto& each) { return each.second->has_ended(); });
    if (ended == workers_.end()) return signal;
    const int number = ended->first;
    const std::unique_ptr<WatchedWorker> worker = std::move(ended->second);
    workers_.erase(ended);
    listener_.ended(number, std::move(*worker).take_end());
  }
}

Node::Signal Node::take_signals() {
  Signal signal = Signal::kNone;
  while (const std::optional<int> number = signals_.take()) {
    if (*number == SIGTSTP) {
      suspend();
    } else {
      signal = Signal::kStop;
    }
  }
  return signal;
}

// Ctrl-Z: the workers, which are in other process groups, stop and go on together with us.
void Node::suspend() {
  for (const auto& [number, worker] : workers_) worker->suspend();
  ::raise(SIGSTOP);
  for (const auto& [number, worker] : workers_) worker->resume();
  listener_.resumed();
}

}  // namespace tandem::cluster
