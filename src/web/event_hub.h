// Hands events from the master to everyone who watches. The newest events are kept in a ring; a
// reader is a place in it, so publishing never waits for a reader, and one that falls behind the
// ring is told so. Owned by the master; must outlive the server and every reader.
//
// publish() and subscribe() may be called from any thread; a Reader belongs to one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "web/reply.h"

namespace tandem::web {

class EventHub {
 public:
  static constexpr std::size_t kKept = 1000;
  static constexpr std::size_t kMostReaders = 64;

  enum class Outcome : std::uint8_t {
    kEvents,     // `text` has at least one.
    kQuiet,      // Nothing came before the deadline.
    kOvertaken,  // The next event is no longer kept.
    kStopped,
  };
  struct Next {
    Outcome outcome = Outcome::kQuiet;
    std::string text;  // As an event stream: id and data lines.
  };

  class Reader {
   public:
    Reader(EventHub& hub, std::uint64_t next) : hub_(hub), next_(next) {}
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // Waits for events, until the deadline or a stop.
    Next next(std::chrono::steady_clock::time_point deadline, const std::stop_token& stop);

   private:
    EventHub& hub_;
    std::uint64_t next_;  // The id of the event to read next.
  };
  struct Subscription {
    std::unique_ptr<Reader> reader;
    std::string greeting;  // To send first: an event `missed`, or "".
  };

  EventHub() = default;
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  // Gives the event the next id, from 1, and returns it. Costs a lock and no I/O.
  std::uint64_t publish(std::string json);

  // From the event behind `after`, or from the next one. When events behind `after` are lost (no
  // longer kept, or of a master before this one), all that are kept follow the greeting. Nothing
  // when there are kMostReaders already.
  std::optional<Subscription> subscribe(EventsAfter after);

  std::size_t readers() const;

 private:
  struct Event {
    std::uint64_t id = 0;
    std::string json;
  };

  mutable std::mutex mutex_;
  std::condition_variable_any published_;
  // Guarded by mutex_.
  std::deque<Event> kept_;
  std::uint64_t last_id_ = 0;
  std::size_t readers_ = 0;
};

}  // namespace tandem::web
