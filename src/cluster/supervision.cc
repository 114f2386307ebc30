#include "cluster/supervision.h"

#include <algorithm>

namespace tandem::cluster {

void Supervision::heard(TimePoint now) {
  if (state_ == State::kRunning) deadline_ = now + silence_;
  if (state_ == State::kStopping) deadline_ = std::min(now + limits_.grace, end_by_);
}

void Supervision::started(TimePoint now) {
  if (state_ != State::kStarting) return;
  state_ = State::kRunning;
  deadline_ = now + silence_;
}

void Supervision::ending(TimePoint now) {
  if (state_ != State::kStarting && state_ != State::kRunning) return;
  state_ = State::kEnding;
  deadline_ = now + limits_.grace;
}

void Supervision::left_alone(TimePoint now) {
  if (state_ == State::kKilled || state_ == State::kStopping) return;
  // One that has not started waits for the other and has nothing to tell.
  const auto time = state_ == State::kStarting ? limits_.follow / 4 : limits_.follow;
  state_ = State::kEnding;
  deadline_ = std::min(deadline_, now + time);
}

void Supervision::awaited(std::chrono::milliseconds silence, TimePoint now) {
  silence_ = std::min(silence, limits_.silence);
  if (state_ == State::kRunning) deadline_ = std::min(deadline_, now + silence_);
}

void Supervision::met(TimePoint now) {
  silence_ = limits_.silence;
  heard(now);
}

void Supervision::resumed(TimePoint now) {
  switch (state_) {
    case State::kStarting:
      deadline_ = now + limits_.start;
      break;
    case State::kRunning:
      deadline_ = now + silence_;
      break;
    case State::kEnding:
    case State::kStopping:
      deadline_ = now + limits_.grace;
      end_by_ = std::max(end_by_, deadline_);
      break;
    case State::kKilled:
      break;
  }
}

Order Supervision::stop(Cause cause, TimePoint now) {
  if (state_ == State::kKilled) return Order::kNothing;
  if (state_ == State::kStopping) return kill(cause);
  // A worker that has reported its end is only hurried: what it reported stays true.
  const bool has_more_to_say = state_ != State::kEnding;
  if (has_more_to_say) cause_ = cause;
  state_ = State::kStopping;
  deadline_ = now + limits_.grace;
  end_by_ = now + (has_more_to_say ? std::max(limits_.saving, limits_.grace) : limits_.grace);
  return Order::kTerminate;
}

Order Supervision::tick(TimePoint now) {
  if (state_ == State::kKilled || now < deadline_) return Order::kNothing;
  if (state_ == State::kStarting) return kill(Cause::kStartTimeout);
  if (state_ == State::kRunning) return kill(Cause::kSilence);
  return kill(Cause::kNone);
}

Order Supervision::abandon() {
  return state_ == State::kKilled ? Order::kNothing : kill(Cause::kNone);
}

Order Supervision::kill(Cause cause) {
  if (cause_ == Cause::kNone && (state_ == State::kStarting || state_ == State::kRunning))
    cause_ = cause;
  state_ = State::kKilled;
  deadline_ = TimePoint::max();
  return Order::kKill;
}

}  // namespace tandem::cluster
