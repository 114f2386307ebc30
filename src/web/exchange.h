// One connection's HTTP: gives the HTTP library whole requests, and writes what it makes of the
// replies. The library's own sockets and threads are not used: they share a port with whoever asks
// for it, take a thread for every silent client and end when accept() fails once. The
// reasons are in docs/decisions/0008-http-sockets.md. Belongs to one thread.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "web/api.h"
#include "web/connection.h"
#include "web/event_hub.h"

namespace tandem::web {

enum class Afterwards : std::uint8_t { kKeep, kClose };

// The source of a reply that does not end by itself.
struct EventSource {
  EventHub::Subscription subscription;
  std::chrono::milliseconds heartbeat{15000};
  std::stop_token stop;
};

class Exchange {
 public:
  explicit Exchange(Connection& connection);
  ~Exchange();

  using Answer = std::function<Reply(const Request&)>;
  // Parses the request, asks `answer`, writes the reply. What `answer` returns may leave an
  // EventSource in `events`, which is then served until it or the client ends.
  Afterwards run(const Received& received, const Answer& answer,
                 std::unique_ptr<EventSource>& events);

  // Sends a reply to what could not be read as a request.
  void refuse(const Reply& reply);

 private:
  class Library;
  std::unique_ptr<Library> library_;
};

}  // namespace tandem::web
