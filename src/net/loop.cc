#include "net/loop.h"

#include <fcntl.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <exception>
#include <utility>
#include <vector>

namespace tandem::net {

namespace {

// Enough that a message of many megabytes takes few system calls.
constexpr std::size_t kScratchBytes = std::size_t{256} << 10;

// poll_once() returns after so many calls, even when busy peers always have more to say.
constexpr std::size_t kCallsAtOnce = 1000;

}  // namespace

struct Loop::State {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::vector<char> scratch = std::vector<char>(kScratchBytes);
};

class Timer::State : public std::enable_shared_from_this<Timer::State> {
 public:
  State(asio::io_context& context, Loop::Function function)
      : timer_(context), function_(std::move(function)) {}

  void start(Loop::Clock::duration delay) {
    timer_.expires_after(delay);
    timer_.async_wait([self = shared_from_this()](const asio::error_code&) {
      // Moved out first: the function may well destroy the Timer.
      if (self->function_) std::exchange(self->function_, nullptr)();
    });
  }

  void cancel() {
    function_ = nullptr;
    timer_.cancel();
  }

 private:
  asio::steady_timer timer_;
  Loop::Function function_;
};

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Timer::cancel() {
  if (auto state = std::exchange(state_, nullptr)) state->cancel();
}

class Watch::State : public std::enable_shared_from_this<Watch::State> {
 public:
  State(asio::io_context& context, Loop::Function function)
      : descriptor_(context),
        function_(std::make_shared<const Loop::Function>(std::move(function))) {}
  ~State() { release(); }

  Status start(int fd) {
    asio::error_code error;
    descriptor_.assign(fd, error);
    if (error) return system_error("watch a descriptor", error.value());
    // Asio makes what it waits for non-blocking. The descriptor may be shared with another process
    // that does not expect this, and waiting does not need it.
    const int flags = ::fcntl(fd, F_GETFL);
    wait();
    if (flags >= 0) ::fcntl(fd, F_SETFL, flags);
    return {};
  }

  void cancel() {
    function_ = nullptr;
    release();
  }

 private:
  void wait() {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](const asio::error_code& error) {
                             if (error || self->function_ == nullptr) return;
                             const auto function = self->function_;
                             (*function)();
                             if (self->function_ != nullptr) self->wait();
                           });
  }

  void release() {
    if (descriptor_.is_open()) descriptor_.release();
  }

  asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<const Loop::Function> function_;
};

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Watch::cancel() {
  if (auto state = std::exchange(state_, nullptr)) state->cancel();
}

Result<std::unique_ptr<Loop>> Loop::create() try {
  return std::unique_ptr<Loop>(new Loop(std::make_unique<State>()));
} catch (const std::exception& failure) {
  return Error(Code::kOutOfSpace, std::string("make an event loop: ") + failure.what());
}

Loop::Loop(std::unique_ptr<State> state) : state_(std::move(state)) {}
Loop::~Loop() = default;

void Loop::run() {
  state_->context.run();
  state_->context.restart();
}

void Loop::run_for(Clock::duration most) {
  state_->context.run_for(most);
  state_->context.restart();
}

std::size_t Loop::poll_once(Clock::duration most) {
  std::size_t calls = state_->context.run_one_for(most);
  while (calls > 0 && calls < kCallsAtOnce && state_->context.poll_one() > 0) ++calls;
  state_->context.restart();
  return calls;
}

void Loop::stop() {
  // Posted, so that it also ends a run() that has not begun yet.
  asio::post(state_->context, [this] { state_->context.stop(); });
}

void Loop::post(Function function) {
  asio::post(state_->context, std::move(function));
}

Timer Loop::after(Clock::duration delay, Function function) {
  auto state = std::make_shared<Timer::State>(state_->context, std::move(function));
  state->start(delay);
  return Timer(std::move(state));
}

Result<Watch> Loop::watch(int fd, Function function) {
  auto state = std::make_shared<Watch::State>(state_->context, std::move(function));
  TANDEM_TRY(state->start(fd));
  return Watch(std::move(state));
}

asio::io_context& Loop::context() {
  return state_->context;
}
std::span<char> Loop::scratch() {
  return state_->scratch;
}

}  // namespace tandem::net
