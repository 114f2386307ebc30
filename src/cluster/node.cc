#include "cluster/node.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "cluster/lines.h"

namespace tandem::cluster {
namespace {

using std::chrono::steady_clock;

// How often a listener may redraw.
constexpr std::chrono::milliseconds kTick{200};
// Bytes read at once; several of these per turn at most, so that a chatty worker cannot keep
// signals waiting.
constexpr std::size_t kChunk = 65536;
constexpr int kChunksATurn = 16;

class Watch {
 public:
  Watch(Child child, const Limits& limits, SignalQueue& signals, WorkerListener& listener)
      : child_(std::move(child)),
        signals_(signals),
        listener_(listener),
        supervision_(limits, steady_clock::now()) {}

  WorkerEnd run();

 private:
  enum class Progress : std::uint8_t { kOpen, kClosed };

  void wait();
  void take_signals();
  void suspend();
  Progress read_control();
  Progress read_lines(Stream stream);
  void drain();
  void handle(const wire::WorkerMessage& message);
  void keep(Status status);
  void obey(Order order);

  Child child_;
  SignalQueue& signals_;
  WorkerListener& listener_;
  Supervision supervision_;
  wire::FrameReader frames_;
  std::array<LineSplitter, 2> lines_;
  std::array<char, kChunk> chunk_{};
  bool control_open_ = true;
  std::array<bool, 2> lines_open_{true, true};
  WorkerEnd end_;
};

WorkerEnd Watch::run() {
  end_.pid = child_.pid();
  for (;;) {
    wait();
    // Exit is asked for before the last bytes are read, so nothing that was written before the end
    // is missed.
    const std::optional<Exit> exit = child_.try_wait();
    take_signals();
    if (control_open_) control_open_ = read_control() == Progress::kOpen;
    for (const Stream stream : {Stream::kErrors, Stream::kOutput}) {
      bool& open = lines_open_[static_cast<std::size_t>(stream)];
      if (open) open = read_lines(stream) == Progress::kOpen;
    }
    if (exit.has_value()) {
      drain();
      end_.exit = *exit;
      end_.cause = supervision_.cause();
      return std::move(end_);
    }
    obey(supervision_.tick(steady_clock::now()));
    listener_.tick();
  }
}

// Sleeps until something happens or a deadline passes.
void Watch::wait() {
  // A closed stream is always readable, so it is left out (poll skips negative descriptors).
  const auto when_open = [](bool open, int fd) { return open ? fd : -1; };
  std::array<pollfd, 5> entries{{{child_.pidfd(), POLLIN, 0},
                                 {signals_.fd(), POLLIN, 0},
                                 {when_open(control_open_, child_.control()), POLLIN, 0},
                                 {when_open(lines_open_[0], child_.output()), POLLIN, 0},
                                 {when_open(lines_open_[1], child_.errors()), POLLIN, 0}}};
  const auto until_deadline = supervision_.deadline() - steady_clock::now();
  const auto left = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(until_deadline),
                               std::chrono::milliseconds(0), kTick);
  // An interrupted or failed poll only means that the descriptors are looked at now.
  ::poll(entries.data(), entries.size(), static_cast<int>(left.count()));
}

void Watch::take_signals() {
  while (const std::optional<int> number = signals_.take()) {
    if (*number == SIGTSTP) {
      suspend();
    } else {
      obey(supervision_.stop(Cause::kCancelled, steady_clock::now()));
    }
  }
}

// Ctrl-Z: the worker, which is in another process group, stops and goes on together with us.
void Watch::suspend() {
  child_.signal(SIGSTOP);
  ::raise(SIGSTOP);
  child_.signal(SIGCONT);
  supervision_.resumed(steady_clock::now());
  listener_.resumed();
}

Watch::Progress Watch::read_control() {
  for (int i = 0; i < kChunksATurn; ++i) {
    const ssize_t got = ::read(child_.control(), chunk_.data(), chunk_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Progress::kOpen;
    if (got <= 0) return Progress::kClosed;
    end_.control_bytes += static_cast<std::uint64_t>(got);
    frames_.feed(std::as_bytes(std::span(chunk_.data(), static_cast<std::size_t>(got))));
    for (;;) {
      auto next = frames_.next();
      if (!next.ok()) {
        keep(std::move(next).error().within("the worker's control socket"));
        return Progress::kClosed;
      }
      if (!next->has_value()) break;
      handle(**next);
    }
  }
  return Progress::kOpen;
}

Watch::Progress Watch::read_lines(Stream stream) {
  const int fd = stream == Stream::kOutput ? child_.output() : child_.errors();
  LineSplitter& splitter = lines_[static_cast<std::size_t>(stream)];
  for (int i = 0; i < kChunksATurn; ++i) {
    const ssize_t got = ::read(fd, chunk_.data(), chunk_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Progress::kOpen;
    if (got <= 0) return Progress::kClosed;
    splitter.feed(std::string_view(chunk_.data(), static_cast<std::size_t>(got)),
                  [&](std::string_view line) { keep(listener_.line(stream, line)); });
  }
  return Progress::kOpen;
}

// The worker and its process group are dead; what they wrote is in the kernel's buffers, which are
// finite.
void Watch::drain() {
  constexpr int kMostTurns = 64;
  for (int turn = 0; turn < kMostTurns && control_open_; ++turn) {
    const std::uint64_t before = end_.control_bytes;
    control_open_ = read_control() == Progress::kOpen && end_.control_bytes != before;
  }
  for (const Stream stream : {Stream::kErrors, Stream::kOutput}) {
    const auto index = static_cast<std::size_t>(stream);
    // A full pipe is one turn's worth; a process that escaped its group may hold the other end and
    // keep it open.
    if (lines_open_[index]) read_lines(stream);
    lines_[index].finish([&](std::string_view line) { keep(listener_.line(stream, line)); });
  }
}

void Watch::handle(const wire::WorkerMessage& message) {
  const TimePoint now = steady_clock::now();
  supervision_.heard(now);
  if (message.has_started()) supervision_.started(now);
  if (message.has_finished() || message.has_failed()) supervision_.ending(now);
  keep(listener_.message(message));
}

// The first failure ends the worker; later ones follow from it. One that is being stopped keeps its
// grace.
void Watch::keep(Status status) {
  if (status.ok() || end_.failure.has_value()) return;
  end_.failure = std::move(status).error();
  if (supervision_.cause() == Cause::kNone)
    obey(supervision_.stop(Cause::kFailure, steady_clock::now()));
}

void Watch::obey(Order order) {
  if (order == Order::kNothing) return;
  child_.signal(order == Order::kKill ? SIGKILL : SIGTERM);
  listener_.stopping(order, supervision_.cause());
}

}  // namespace

Result<WorkerEnd> run_worker(const Command& command, const Limits& limits, SignalQueue& signals,
                             WorkerListener& listener) {
  TANDEM_ASSIGN(Child child, Child::start(command));
  return Watch(std::move(child), limits, signals, listener).run();
}

}  // namespace tandem::cluster
