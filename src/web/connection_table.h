// The connections of a server and the thread of each, kept to a number. Silent clients cannot take
// the API away: when the table is full, the connection that has waited longest for its client (for
// a request, or to take a reply) makes room for a new one. Those whose request is being answered
// and those that stream events are never sent away; streams have places of their own.
//
// Every method may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "web/connection.h"

namespace tandem::web {

class ConnectionTable {
 public:
  enum class State : std::uint8_t { kWaiting, kAnswering, kStreaming };

  class Entry {
   public:
    Entry(Descriptor socket, Timeouts timeouts) : connection(std::move(socket), timeouts) {}

    Connection connection;

   private:
    friend class ConnectionTable;
    // Guarded by the table's mutex.
    State state_ = State::kWaiting;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    bool sent_away_ = false;
    bool finished_ = false;
    std::thread thread_;
  };

  // `most` counts connections that do not stream.
  explicit ConnectionTable(std::size_t most) : most_(most) {}
  ~ConnectionTable() { stop(); }
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // Takes the socket and runs `serve` on a thread of its own. False, and the socket stays with the
  // caller, when every place is taken by a request that is being answered.
  bool add(Descriptor& socket, Timeouts timeouts, std::function<void(Entry&)> serve);

  // False when the connection was sent away: its thread must end.
  bool set_state(Entry& entry, State state);

  // Shuts every connection down and waits for the threads. Nothing is added afterwards.
  void stop();

 private:
  bool make_room(std::unique_lock<std::mutex>& lock);
  std::list<Entry> take_finished();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable finished_;
  // Guarded by mutex_.
  std::list<Entry> entries_;
  bool stopped_ = false;
};

}  // namespace tandem::web
