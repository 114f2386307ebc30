#include "cluster/errands.h"

#include <utility>

namespace tandem::cluster {

Errands::Errands(net::Loop& loop) : loop_(loop), thread_([this] { serve(); }) {}

Errands::~Errands() {
  alive_.reset();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Errands::run(Work work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void Errands::serve() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    loop_.post([alive = whether_alive_, then = work()] {
      if (!alive.expired()) then();
    });
  }
}

}  // namespace tandem::cluster
