// One worker under a node's eyes: its process, what it says, and when it is made to end. The node's
// loop (cluster/node.cc) polls its descriptors and calls look(). Belongs to one thread.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/lines.h"
#include "cluster/node.h"

namespace tandem::cluster {

class WatchedWorker {
 public:
  WatchedWorker(int number, Child child, std::string first_line, const Limits& limits,
                NodeListener& listener);

  // What to wait for; nothing once it has ended.
  void add_descriptors(std::vector<pollfd>& entries) const;
  TimePoint deadline() const;

  // Reads what there is, notices the end and keeps deadlines.
  void look();
  bool has_ended() const { return ended_; }
  WorkerEnd take_end() && { return std::move(end_); }

  void stop(Cause cause);
  void kill();
  // One that does not read what it is told is ended.
  void tell(const wire::WorkerMessage& message);
  // Another ended badly: it has a moment to notice and say so.
  void expect_end();
  void suspend() const { child_.signal(SIGSTOP); }
  void resume();

  // The strongest order that it was given.
  Order order() const { return order_; }
  Cause cause() const { return supervision_.cause(); }

 private:
  enum class Progress : std::uint8_t { kOpen, kClosed };

  Progress read_control();
  Progress read_lines(Stream stream);
  void drain();
  void take_line(Stream stream, std::string_view line);
  void handle(const wire::WorkerMessage& message);
  void keep(Status status);
  void obey(Order order);

  const int number_;
  Child child_;
  NodeListener& listener_;
  Supervision supervision_;
  const std::string first_line_;
  wire::FrameReader frames_;
  std::array<LineSplitter, 2> lines_;
  bool control_open_ = true;
  std::array<bool, 2> lines_open_{true, true};
  bool ended_ = false, said_finished_ = false;
  bool trains_ = false;  // It has made a step with others, and not left them.
  Order order_ = Order::kNothing;
  WorkerEnd end_;
};

}  // namespace tandem::cluster
