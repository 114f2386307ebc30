// Threads that help with what is too much for one: the pieces of a step, when many are there at
// once. Workers that wait for them leave their cores free.
//
// Belongs to one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::ps {

class Crew {
 public:
  // With so many threads besides the caller's; fewer where the system gives no more.
  explicit Crew(std::size_t helpers);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls `each` once with every number from `begin` to below `end`, on whichever thread is free;
  // returns when all calls have. REQUIRES: it throws nothing.
  void run(std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& each);

 private:
  void help();
  void work(const std::function<void(std::size_t)>& each);

  std::atomic<std::size_t> next_ = 0, end_ = 0;
  std::atomic<std::size_t> active_ = 0;  // Helpers that may be inside a call.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const std::function<void(std::size_t)>* each_ = nullptr;  // While there is something to do.
  std::uint64_t runs_ = 0;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace tandem::ps
