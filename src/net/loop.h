// An event loop: one thread that waits for sockets, timers and descriptors and calls back whoever
// asked. Everything in net/ lives on one Loop; its owner is whoever runs the thread.
//
// post() and stop() may be called from any thread, everything else only from the thread that runs
// the loop (or before any does). A Loop outlives every timer, watch, channel, listener and link on
// it. Asio does the work and stays behind this header: it compiles slowly.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"

namespace asio {
class io_context;
}

namespace tandem::net {

// A call in the future. Destroying or cancelling it before then takes it back: afterwards the
// function is not called any more, not even when its time has come already.
class Timer {
 public:
  class State;

  Timer() = default;
  explicit Timer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Timer(Timer&& other) noexcept = default;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer() { cancel(); }

  void cancel();

 private:
  std::shared_ptr<State> state_;
};

// A function that is called whenever a descriptor is readable, until this is destroyed or
// cancelled. Must go before the descriptor is closed.
class Watch {
 public:
  class State;

  Watch() = default;
  explicit Watch(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Watch(Watch&& other) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch() { cancel(); }

  void cancel();

 private:
  std::shared_ptr<State> state_;
};

class Loop {
 public:
  using Clock = std::chrono::steady_clock;
  using Function = std::function<void()>;

  // An error only when the system is out of descriptors or memory.
  static Result<std::unique_ptr<Loop>> create();
  ~Loop();

  // Handles events until stop(). A stop() that came before counts.
  void run();

  // Like run(), for at most so long.
  void run_for(Clock::duration most);

  // Waits at most so long for the first event, then handles what is ready; for a caller that has a
  // loop of its own. How many functions were called.
  std::size_t poll_once(Clock::duration most);

  // Makes run() or run_for() return, once. From any thread.
  void stop();

  // Calls the function on the loop's thread, in the order of the calls. From any thread.
  void post(Function function);

  // Calls the function once, after so long.
  [[nodiscard]] Timer after(Clock::duration delay, Function function);

  // Calls the function whenever `fd` (a socket, pipe, pidfd, eventfd) is readable or closed by its
  // other end. The function must read or cancel, or it is called again. The descriptor stays the
  // caller's.
  Result<Watch> watch(int fd, Function function);

  // For net/ only: where asio's objects live, and bytes to receive into, which serve all
  // connections because nothing is kept in them between two events.
  asio::io_context& context();
  std::span<char> scratch();

 private:
  struct State;

  explicit Loop(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tandem::net
