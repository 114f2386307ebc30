// When a worker is asked to end, and when it is killed: the policy of a node without the process. A
// pure state machine: it is told what happened and when, and answers what to do; it reads no clock,
// so tests give it any time they like.
//
//   starting --Started--> running --Finished/Failed--> ending
//      |                     |                            |
//      |  too long, stop     | silence, stop              | too long
//      +---------------------+--> stopping --too long, stop again--> killed
//
// A worker that was asked to end and says something meanwhile is at work: it saves what it has
// learnt, which takes long when that is much. So its grace counts from its last word, up to a
// limit.
//
// Belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace tandem::cluster {

using TimePoint = std::chrono::steady_clock::time_point;

struct Limits {
  std::chrono::milliseconds start = std::chrono::seconds(120);    // From the start to Started.
  std::chrono::milliseconds silence = std::chrono::seconds(300);  // Between messages, once started.
  std::chrono::milliseconds grace =
      std::chrono::seconds(10);  // From being asked to end, or its last word since, to the end.
  std::chrono::milliseconds saving =
      std::chrono::minutes(30);  // From being asked to end to the end, whatever it says.
  std::chrono::milliseconds follow =
      std::chrono::seconds(2);  // From the bad end of another worker to this one's.
};

// Why a worker was made to end.
enum class Cause : std::uint8_t {
  kNone,          // It was not: it ended by itself.
  kCancelled,     // The user asked for it.
  kStartTimeout,  // It did not say Started in time.
  kSilence,       // It said nothing for too long.
  kFailure,       // What it said could not be understood or recorded.
};

enum class Order : std::uint8_t { kNothing, kTerminate, kKill };

class Supervision {
 public:
  Supervision(const Limits& limits, TimePoint now)
      : limits_(limits), deadline_(now + limits.start) {}

  // A message came.
  void heard(TimePoint now);
  // The message was Started; Finished or Failed, after which the worker has only to exit.
  void started(TimePoint now);
  void ending(TimePoint now);
  // Another worker ended before its work was done, so this one cannot go on.
  void left_alone(TimePoint now);
  // Others wait for it to leave what it does and meet them: until met() it may be silent for no
  // longer than this.
  void awaited(std::chrono::milliseconds silence, TimePoint now);
  void met(TimePoint now);
  // The run goes on after the user had suspended it: the time in between does not count.
  void resumed(TimePoint now);

  // The worker shall end. The first call asks it to; another kills it.
  Order stop(Cause cause, TimePoint now);
  // It is of no more use: kills it at once, for no cause of its own.
  Order abandon();
  // Time passed. A worker that started too late, fell silent or outlived its grace is killed.
  Order tick(TimePoint now);

  // When tick() has something to do next; TimePoint::max() once the worker was killed.
  TimePoint deadline() const { return deadline_; }
  // The first reason for which the worker was asked to end or killed.
  Cause cause() const { return cause_; }

 private:
  enum class State : std::uint8_t { kStarting, kRunning, kEnding, kStopping, kKilled };

  Order kill(Cause cause);

  const Limits limits_;
  std::chrono::milliseconds silence_ = limits_.silence;  // The limit now.
  State state_ = State::kStarting;
  Cause cause_ = Cause::kNone;
  TimePoint deadline_;
  TimePoint end_by_{};  // When it was asked to end.
};

}  // namespace tandem::cluster
