// Work that may take longer than others can wait for the loop, such as reading all bytes of a
// checkpoint: done on a thread of its own, one errand after another, and what follows from it on
// the loop's.
//
// Belongs to the thread of the Loop; only the work itself runs elsewhere.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "net/loop.h"

namespace tandem::cluster {

class Errands {
 public:
  using Then = std::function<void()>;
  // Touches nothing that the loop's thread may touch, and returns what shall be done there.
  using Work = std::function<Then()>;

  explicit Errands(net::Loop& loop);
  // Waits for the work under way. Nothing that follows is called any more.
  ~Errands();
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  void run(Work work);

 private:
  void serve();

  net::Loop& loop_;
  // Gone with this, which what was posted looks at. Of the loop's thread, but for copies of it.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  const std::weak_ptr<int> whether_alive_ = alive_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;  // Guarded by mutex_, as is the next.
  bool ending_ = false;

  std::thread thread_;
};

}  // namespace tandem::cluster
