#include "cluster/watched_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace tandem::cluster {
namespace {

using std::chrono::steady_clock;

// Bytes read at once; several of these per turn at most, so that a chatty worker cannot keep
// signals waiting.
constexpr std::size_t kChunk = 65536;
constexpr int kChunksATurn = 16;
// So that who waits for others is late after them.
constexpr std::chrono::milliseconds kSlack{1000};

}  // namespace

WatchedWorker::WatchedWorker(int number, Child child, std::string first_line, const Limits& limits,
                             NodeListener& listener)
    : number_(number),
      child_(std::move(child)),
      listener_(listener),
      supervision_(limits, steady_clock::now()),
      first_line_(std::move(first_line)) {
  end_.pid = child_.pid();
}

void WatchedWorker::add_descriptors(std::vector<pollfd>& entries) const {
  if (ended_) return;
  entries.push_back({child_.pidfd(), POLLIN, 0});
  // A closed stream is always readable, so it is left out.
  if (control_open_) entries.push_back({child_.control(), POLLIN, 0});
  if (lines_open_[0]) entries.push_back({child_.output(), POLLIN, 0});
  if (lines_open_[1]) entries.push_back({child_.errors(), POLLIN, 0});
}

TimePoint WatchedWorker::deadline() const {
  return ended_ ? TimePoint::max() : supervision_.deadline();
}

void WatchedWorker::look() {
  if (ended_) return;
  // Exit is asked for before the last bytes are read, so nothing that was written before the end is
  // missed.
  const std::optional<Exit> exit = child_.try_wait();
  if (control_open_) control_open_ = read_control() == Progress::kOpen;
  for (const Stream stream : {Stream::kErrors, Stream::kOutput}) {
    bool& open = lines_open_[static_cast<std::size_t>(stream)];
    if (open) open = read_lines(stream) == Progress::kOpen;
  }
  if (exit.has_value()) {
    drain();
    ended_ = true;
    end_.exit = *exit;
    end_.cause = supervision_.cause();
    end_.order = order_;
    end_.badly = !said_finished_ && *exit != Exit{};
    return;
  }
  obey(supervision_.tick(steady_clock::now()));
}

void WatchedWorker::stop(Cause cause) {
  if (!ended_) obey(supervision_.stop(cause, steady_clock::now()));
}

void WatchedWorker::kill() {
  if (!ended_) obey(supervision_.abandon());
}

void WatchedWorker::tell(const wire::WorkerMessage& message) {
  // Its buffer holds thousands of messages, so nothing waits; one that has just ended is noticed by
  // its exit.
  const Status status = wire::send(child_.control(), message, std::chrono::milliseconds(100));
  // It is called away from a generation that is over. A step takes less than the time after which
  // others would have given it up, and what may take longer beats.
  if (message.has_place() && trains_) {
    const auto patience = std::chrono::duration<double>(message.place().forming_s());
    supervision_.awaited(std::chrono::duration_cast<std::chrono::milliseconds>(patience) + kSlack,
                         steady_clock::now());
  }
  if (!status.ok() && status.error().code() == Code::kTimeout) kill();
}

void WatchedWorker::expect_end() {
  supervision_.left_alone(steady_clock::now());
}

void WatchedWorker::resume() {
  child_.signal(SIGCONT);
  supervision_.resumed(steady_clock::now());
}

WatchedWorker::Progress WatchedWorker::read_control() {
  std::array<char, kChunk> chunk;
  for (int i = 0; i < kChunksATurn; ++i) {
    const ssize_t got = ::read(child_.control(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Progress::kOpen;
    if (got <= 0) return Progress::kClosed;
    end_.control_bytes += static_cast<std::uint64_t>(got);
    frames_.feed(std::as_bytes(std::span(chunk.data(), static_cast<std::size_t>(got))));
    for (;;) {
      auto next = frames_.next();
      if (!next.ok()) {
        keep(std::move(next).error().within(
            fmt::format("the control socket of worker {}", number_)));
        return Progress::kClosed;
      }
      if (!next->has_value()) break;
      handle(**next);
    }
  }
  return Progress::kOpen;
}

WatchedWorker::Progress WatchedWorker::read_lines(Stream stream) {
  const int fd = stream == Stream::kOutput ? child_.output() : child_.errors();
  LineSplitter& splitter = lines_[static_cast<std::size_t>(stream)];
  std::array<char, kChunk> chunk;
  for (int i = 0; i < kChunksATurn; ++i) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Progress::kOpen;
    if (got <= 0) return Progress::kClosed;
    splitter.feed(std::string_view(chunk.data(), static_cast<std::size_t>(got)),
                  [&](std::string_view line) { take_line(stream, line); });
  }
  return Progress::kOpen;
}

// The worker and its process group are dead; what they wrote is in the kernel's buffers, which are
// finite.
void WatchedWorker::drain() {
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
    lines_[index].finish([&](std::string_view line) { take_line(stream, line); });
  }
}

void WatchedWorker::take_line(Stream stream, std::string_view line) {
  if (stream == Stream::kOutput && !first_line_.empty() && line == first_line_) {
    supervision_.started(steady_clock::now());
    end_.started = true;
    return;
  }
  keep(listener_.line(number_, stream, line));
}

void WatchedWorker::handle(const wire::WorkerMessage& message) {
  const TimePoint now = steady_clock::now();
  supervision_.heard(now);
  if (message.has_started() || message.has_serving()) {
    supervision_.started(now);
    end_.started = true;
  }
  if (message.has_placed() || message.has_left()) {
    trains_ = message.has_placed();
    supervision_.met(now);
  }
  if (message.has_finished() || message.has_failed()) supervision_.ending(now);
  if (message.has_finished()) said_finished_ = true;
  keep(listener_.message(number_, message));
}

// The first failure ends the worker; later ones follow from it. One that is being stopped keeps its
// grace.
void WatchedWorker::keep(Status status) {
  if (status.ok() || end_.failure.has_value()) return;
  end_.failure = std::move(status).error();
  if (supervision_.cause() == Cause::kNone)
    obey(supervision_.stop(Cause::kFailure, steady_clock::now()));
}

void WatchedWorker::obey(Order order) {
  if (order == Order::kNothing) return;
  child_.signal(order == Order::kKill ? SIGKILL : SIGTERM);
  order_ = order;
}

}  // namespace tandem::cluster
