// A connection to one peer that has proved who it is. It carries whole messages: a kind and bytes,
// in order, each once, or it closes. Listeners and links make channels (net/listener.h,
// net/link.h); memory_pair makes two that are connected (net/memory.h).
//
// A channel and its callbacks belong to the thread of its Loop. Any of its callbacks may destroy
// it; destroying it closes it at once and without a callback.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace tandem::net {

enum class Closing {
  kNow,       // What is queued is dropped.
  kWhenSent,  // Once what is queued was sent and the peer closed; after Limits::silence at most.
};

class Channel {
 public:
  struct Handler {
    // A message came. The bytes are the handler's to keep.
    std::function<void(std::uint16_t kind, std::string bytes)> on_message;
    // The channel is of no more use; comes once, and last. kPeerLost when the other end is gone,
    // kTimeout when it fell silent, kCorrupt when it sent what it must not, kCancelled after
    // close().
    std::function<void(Error why)> on_closed;
    // Everything that send() queued is with the kernel; comes only after a send() was refused. May
    // be empty.
    std::function<void()> on_drained;
  };

  virtual ~Channel() = default;
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // From now on messages are received; before, they wait. Beats begin too. REQUIRES: not started.
  virtual void start(Handler handler) = 0;

  // Queues the message and returns at once. kOutOfSpace when Limits::queue_bytes would be queued:
  // the peer reads too slowly, and nothing of this message is sent. kInvalidArgument when it is
  // longer than Limits::message_bytes, kPeerLost when the channel is closed. That a message was
  // queued does not mean that the peer got it. REQUIRES: kind < kFirstReservedKind.
  virtual Status send(std::uint16_t kind, std::string bytes) = 0;

  // Bytes that are queued and not yet with the kernel, headers included.
  virtual std::size_t queued_bytes() const = 0;

  // Ends the channel; on_closed follows from the loop. No message is received any more.
  virtual void close(Closing closing) = 0;

  // Who the peer is, for a log: "127.0.0.1:40312".
  virtual const std::string& peer() const = 0;
};

}  // namespace tandem::net
