// One accepted connection as bytes: whole requests in, bytes out, nothing waits past its deadline.
// A request counts from its first byte, so a client that sends a byte now and then gains nothing.
// Belongs to one thread; only shut_down() may be called from others.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "base/descriptor.h"
#include "web/access.h"
#include "web/head.h"
#include "web/reply.h"
#include "web/request.h"

namespace tandem::web {

struct Timeouts {
  std::chrono::milliseconds idle{5000};   // Until a request begins.
  std::chrono::milliseconds read{5000};   // From a request's first byte to its last.
  std::chrono::milliseconds write{5000};  // Without a byte that the client takes.
};

struct Received {
  Head head;
  std::string body;
};
struct Ended {};

class Connection {
 public:
  Connection(Descriptor socket, Timeouts timeouts);

  // The next request, a refusal to send before closing, or Ended when the client closed or was
  // silent for too long.
  std::variant<Received, Reply, Ended> receive();

  // The number of bytes that went out, or -1.
  ssize_t write(const char* data, std::size_t bytes);

  // Reads on for a moment, so that the client sees the last reply before the connection is reset
  // for what it still sends.
  void drain();

  // Makes every call of the owner return at once.
  void shut_down() const { ::shutdown(socket_.get(), SHUT_RDWR); }

  bool peer_is_there() const;
  const std::string& peer_address() const { return peer_address_; }
  Peer peer() const { return is_loopback(peer_address_) ? Peer::kLoopback : Peer::kRemote; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Got : std::uint8_t { kBytes, kEnd, kTimeout };

  Got read_more(Clock::time_point deadline);

  const Descriptor socket_;
  const Timeouts timeouts_;
  std::string peer_address_;
  std::string input_;  // Received and not yet consumed.
};

}  // namespace tandem::web
