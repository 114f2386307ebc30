// When a channel beats and when its peer counts as gone: pure arithmetic on times, without a clock.
// One for each channel; plain values.
#pragma once

#include <algorithm>
#include <chrono>

#include "net/limits.h"

namespace tandem::net {

class Pulse {
 public:
  using Time = std::chrono::steady_clock::time_point;

  enum class Verdict { kNothing, kSendBeat, kDead };

  Pulse(const Limits& limits, Time now)
      : heartbeat_(limits.heartbeat),
        silence_(limits.silence),
        sent_(now),
        received_(now),
        due_(next()) {}

  void sent(Time now) { sent_ = now; }
  void received(Time now) { received_ = now; }

  // What to do now; ask again at due().
  Verdict check(Time now) {
    // Asked much too late: this process itself stood still, and what the peer sent meanwhile has
    // not been read yet. The silence counts from here.
    if (now - due_ > heartbeat_) received_ = now;
    const bool dead = now - received_ >= silence_;
    const bool beat = now - sent_ >= heartbeat_;
    if (beat) sent_ = now;
    due_ = next();
    return dead ? Verdict::kDead : beat ? Verdict::kSendBeat : Verdict::kNothing;
  }

  Time due() const { return due_; }

 private:
  Time next() const { return std::min(sent_ + heartbeat_, received_ + silence_); }

  std::chrono::steady_clock::duration heartbeat_;
  std::chrono::steady_clock::duration silence_;
  Time sent_;
  Time received_;
  Time due_;
};

}  // namespace tandem::net
