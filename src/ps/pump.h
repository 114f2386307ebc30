// A thread that keeps a worker's connections moving while the worker computes: what the kernel does
// not take at once is sent when it does, and results are received as they come.
//
// Its owner holds it whenever it uses the connections itself; in between, from start() to stop(),
// the thread does. All calls are the owner's, from one thread.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::ps {

class Pump {
 public:
  struct Work {
    // Moves what it can without waiting; whether that was anything. After an Error it is called no
    // more.
    std::function<Result<bool>()> turn;
    // Adds what turn() waits for.
    std::function<void(std::vector<pollfd>&)> awaits;
  };

  // What `work` uses must outlive it.
  static Result<std::unique_ptr<Pump>> create(Work work);
  // Waits until the thread has ended, which does not take long.
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // While it lives, only the owner works. Does not wait longer than a turn takes.
  [[nodiscard]] std::unique_lock<std::mutex> hold();

  // The rest REQUIRES that it is held. The thread works when it is not held, until stop().
  void start();
  void stop() { works_ = false; }
  // What turn() said.
  const Status& status() const { return status_; }

 private:
  Pump(Work work, Descriptor bell);
  void run();
  void ring();

  // Constant after construction.
  const Work work_;
  const Descriptor bell_;  // Wakes the thread up where it waits for connections.

  std::atomic<bool> is_wanted_ = false;  // The owner waits for a turn to end.
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool works_ = false, ends_ = false, polls_ = false;
  Status status_;

  std::thread thread_;
};

}  // namespace tandem::ps
