// How a trainer speaks to whoever placed it: what there is to say, and often enough that a slow
// worker is not taken for a dead one. Belongs to one thread.
#pragma once

#include <chrono>
#include <future>
#include <string>

#include "train/reporter.h"
#include "train/reports.h"

namespace tandem::train {

class Voice {
 public:
  // The reporter must outlive it.
  explicit Voice(Reporter& reporter) : reporter_(reporter) {}

  void say(const wire::WorkerMessage& message);
  void event(const char* kind, const std::string& detail) { say(event_message(kind, detail)); }

  // Says again where the run is when nothing has been said for a while.
  void beat();

  // Does what may take long, and beats meanwhile.
  template <typename Work>
  auto beating(const Work& work) {
    auto result = std::async(std::launch::async, work);
    while (result.wait_for(kLook) != std::future_status::ready) beat();
    return result.get();
  }

  // Between two looks at what takes long.
  static constexpr std::chrono::milliseconds kLook{100};

 private:
  using Clock = std::chrono::steady_clock;

  Reporter& reporter_;
  wire::WorkerMessage last_progress_;
  Clock::time_point last_message_ = Clock::now();
};

}  // namespace tandem::train
