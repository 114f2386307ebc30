// Simulated time: what is to happen, in the order in which it happens, and the dice that decide.
// The same seed gives the same run on every machine. Belongs to one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "cluster/supervision.h"

namespace tandem::simulation {

using cluster::TimePoint;
using std::chrono::milliseconds;

// SplitMix64: small, and the same everywhere, which the standard's distributions are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  // From `least` to `most`, both included.
  int between(int least, int most) {
    return least + static_cast<int>(next() % static_cast<std::uint64_t>(most - least + 1));
  }
  milliseconds time(int least_ms, int most_ms) { return milliseconds(between(least_ms, most_ms)); }
  bool percent(int chance) { return between(0, 99) < chance; }

 private:
  std::uint64_t next() {
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15ULL);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }

  std::uint64_t state_;
};

class Agenda {
 public:
  TimePoint now() const { return now_; }

  void at(TimePoint time, std::function<void()> happening) {
    events_.push({std::max(time, now_), count_++, std::move(happening)});
  }

  // False when nothing is left to happen until then.
  bool go_on(TimePoint until) {
    if (events_.empty() || events_.top().time > until) return false;
    now_ = events_.top().time;
    const std::function<void()> happening = events_.top().happening;
    events_.pop();
    happening();
    return true;
  }

 private:
  struct Event {
    TimePoint time;
    std::uint64_t number = 0;
    std::function<void()> happening;

    bool operator<(const Event& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };

  TimePoint now_{};
  std::uint64_t count_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace tandem::simulation
