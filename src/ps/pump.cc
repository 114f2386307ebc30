#include "ps/pump.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace tandem::ps {

Result<std::unique_ptr<Pump>> Pump::create(Work work) {
  Descriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.is_open()) return system_error("make an eventfd", errno);
  try {
    return std::unique_ptr<Pump>(new Pump(std::move(work), std::move(bell)));
  } catch (const std::system_error& error) {
    return system_error("start a thread", error.code().value());
  }
}

Pump::Pump(Work work, Descriptor bell)
    : work_(std::move(work)), bell_(std::move(bell)), thread_([this] { run(); }) {}

Pump::~Pump() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    ring();
  }
  changed_.notify_one();
  thread_.join();
}

std::unique_lock<std::mutex> Pump::hold() {
  is_wanted_ = true;
  std::unique_lock lock(mutex_);
  is_wanted_ = false;
  return lock;
}

void Pump::start() {
  works_ = true;
  if (polls_) {
    ring();
  } else {
    changed_.notify_one();
  }
}

// An eventfd takes it unless it is full, which wakes as well.
void Pump::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = ::write(bell_.get(), &one, sizeof one);
}

void Pump::run() {
  constexpr int kNap_ms = 100;
  std::vector<pollfd> entries;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || (works_ && status_.ok()); });
    if (ends_) return;
    const Result<bool> moved = work_.turn();
    if (!moved.ok()) {
      status_ = moved.error();
      continue;
    }
    entries.clear();
    if (!*moved) {
      work_.awaits(entries);
      entries.push_back({bell_.get(), POLLIN, 0});
      polls_ = true;
    }
    lock.unlock();
    if (!entries.empty()) {
      ::poll(entries.data(), entries.size(), kNap_ms);
      std::uint64_t rung = 0;
      [[maybe_unused]] const ssize_t read = ::read(bell_.get(), &rung, sizeof rung);
    }
    // A lock that is free for a moment only is not given to who waits for it.
    while (is_wanted_) std::this_thread::yield();
    lock.lock();
    polls_ = false;
  }
}

}  // namespace tandem::ps
