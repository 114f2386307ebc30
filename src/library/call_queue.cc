#include "library/call_queue.h"

#include <utility>

#include "library/failure.h"

namespace tandem::library {

CallQueue::~CallQueue() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CallQueue::refuse_while_held() const {
  if (held_) refuse("a backward of DataParallel is under way; the group can be used after it");
}

void CallQueue::run(const std::function<void()>& call) {
  std::unique_lock lock(mutex_);
  refuse_while_held();
  if (busy_ || !queue_.empty()) {
    lock.unlock();
    start(call).get();
    return;
  }
  busy_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    call();
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  busy_ = false;
  lock.unlock();
  changed_.notify_all();
  if (failure) std::rethrow_exception(failure);
}

std::shared_future<void> CallQueue::start(std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  std::shared_future<void> end = task.get_future().share();
  {
    const std::scoped_lock lock(mutex_);
    refuse_while_held();
    queue_.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_all();
  return end;
}

void CallQueue::hold() {
  std::unique_lock lock(mutex_);
  refuse_while_held();
  changed_.wait(lock, [this] { return !busy_ && queue_.empty(); });
  held_ = true;
}

void CallQueue::release() {
  const std::scoped_lock lock(mutex_);
  held_ = false;
}

void CallQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !busy_ && (!queue_.empty() || ending_); });
    if (queue_.empty()) return;
    std::packaged_task<void()> task = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace tandem::library
