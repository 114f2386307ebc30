// The bounds on everything that a peer can make this side spend: bytes, connections, time. Plain
// values, given to a Listener, a Link or a memory_pair when it is made.
#pragma once

#include <chrono>
#include <cstddef>

namespace tandem::net {

struct Limits {
  // The longest message, sent or received. A frame that claims more ends its connection.
  std::size_t message_bytes = std::size_t{16} << 20;
  // The most that send() queues on one channel, headers included.
  std::size_t queue_bytes = std::size_t{64} << 20;
  // An idle channel sends a beat so often.
  std::chrono::milliseconds heartbeat{1000};
  // A channel on which no byte came for so long is closed.
  std::chrono::milliseconds silence{5000};
  // From the connection to the end of the handshake, looking up the name included.
  std::chrono::milliseconds handshake{5000};
  // Connections of a Listener that have not proved yet who they are.
  std::size_t waiting = 256;
  // A Link waits so long before it tries again: at first, and at most.
  std::chrono::milliseconds backoff_first{100};
  std::chrono::milliseconds backoff_most{5000};
};

}  // namespace tandem::net
