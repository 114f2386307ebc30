#include "ps/crew.h"

#include <sched.h>

#include <system_error>

namespace tandem::ps {

Crew::Crew(std::size_t helpers) {
  threads_.reserve(helpers);
  try {
    while (threads_.size() < helpers) threads_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {
    // The caller does it alone.
  }
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::run(std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& each) {
  {
    const std::lock_guard lock(mutex_);
    next_ = begin;
    end_ = end;
    each_ = &each;
    ++runs_;
  }
  changed_.notify_all();
  work(each);
  {
    // Who wakes up now comes too late.
    const std::lock_guard lock(mutex_);
    each_ = nullptr;
  }
  // Nobody has more than one call left, which is short.
  while (active_ != 0) ::sched_yield();
}

void Crew::work(const std::function<void(std::size_t)>& each) {
  for (std::size_t i = next_++; i < end_; i = next_++) each(i);
}

void Crew::help() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;;) {
    changed_.wait(lock, [&] { return stopping_ || (each_ != nullptr && runs_ != seen); });
    if (stopping_) return;
    seen = runs_;
    const std::function<void(std::size_t)>& each = *each_;
    ++active_;
    lock.unlock();
    work(each);
    --active_;
    lock.lock();
  }
}

}  // namespace tandem::ps
