// Runs the calls of a group one after another, in the order in which they were made: at once when
// nothing is before them, else on a thread of its own, which starts with the first call that needs
// it.
//
// All methods may be called from any thread. The destructor lets what is queued end.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace tandem::library {

class CallQueue {
 public:
  CallQueue() = default;
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // Returns when the call has ended; throws what it throws.
  void run(const std::function<void()>& call);
  // Runs it in the background.
  std::shared_future<void> start(std::function<void()> call);

  // Waits until all calls have ended; until release(), run() and start() throw kInvalidArgument: a
  // reducer is at work, which may use the group from a thread of its own.
  void hold();
  void release();

 private:
  void refuse_while_held() const;
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::packaged_task<void()>> queue_;
  bool busy_ = false;  // A call is under way.
  bool held_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tandem::library
