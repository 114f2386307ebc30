// The thread of a StoreServer: a poll loop over non-blocking sockets, so that a silent or slow
// client holds up nobody. Used by store_server.cc.
#pragma once

#include <poll.h>

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "collective/store.h"
#include "collective/store_protocol.h"

namespace tandem::collective {

// run() and what it calls belong to the server's thread; stop() may be called from any.
class StoreServer::Loop {
 public:
  // `listener` is a listening socket, `stopper` an eventfd; neither blocks.
  Loop(Descriptor listener, Descriptor stopper, std::string_view token);

  void run();
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    Descriptor socket;
    Clock::time_point greeting_deadline;
    bool welcome = false;
    bool ends = false;  // Once `output` is sent.
    std::vector<std::byte> input;
    std::vector<std::byte> output;
    std::size_t sent = 0;
    std::optional<std::string> waits_for;  // The key of a get that has no answer yet.
    std::uint32_t sequence = 0;            // Of the latest request.
  };

  // False when the server ends.
  bool poll_once();
  void accept();
  // Drops the stranger that has had most time and used it least.
  void make_room();
  void serve(Connection& connection);
  void read(Connection& connection);
  // Handles one whole message of the input; false when there is none.
  bool step(Connection& connection);
  bool greet(Connection& connection);
  void set(Connection& connection, const std::string& key, std::span<const std::byte> value);
  void get(Connection& connection, std::string key);
  void reply(Connection& connection, store::Reply kind, std::span<const std::byte> value);
  // Sends what the socket takes now; the rest goes when poll says so.
  void flush(Connection& connection);

  const Descriptor listener_;
  const Descriptor stopper_;
  const store::GreetingBytes expected_;
  std::vector<Connection> connections_;
  std::vector<pollfd> entries_;  // Of one poll; kept for its memory.
  std::map<std::string, std::vector<std::byte>> keys_;
  Clock::time_point accept_after_{};
};

}  // namespace tandem::collective
