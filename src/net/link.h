// The client's side: keeps one channel to a listener, and makes a new one whenever it is lost, with
// growing pauses (Limits::backoff_first to backoff_most, each shortened by chance so that many
// clients do not come back at the same moment).
//
// A link and its callbacks belong to the thread of its Loop. Its callbacks may destroy it, which
// ends it and its channel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/limits.h"
#include "net/loop.h"
#include "net/secret.h"

namespace tandem::net {

class Link {
 public:
  struct Handler {
    // The peer is there and has proved itself. The channel is the link's, started already, and
    // valid until on_down returns; to close it means to connect anew.
    std::function<void(Channel& channel)> on_up;
    // As those of Channel::Handler.
    std::function<void(std::uint16_t kind, std::string bytes)> on_message;
    std::function<void()> on_drained;  // May be empty.
    // The channel was lost, or an attempt to make one failed; another follows. After kDenied and
    // kVersionMismatch, which rarely go away by themselves, it follows at the slowest pace.
    std::function<void(const Error& why)> on_down;
  };

  // Connects from now on. kDenied when the security has no secret and the address is not a loopback
  // one (for a name, this is found when it is looked up); kInvalidArgument when a file of the
  // security cannot be used.
  static Result<std::unique_ptr<Link>> create(Loop& loop, const Endpoint& endpoint,
                                              const Security& security, const Limits& limits,
                                              Handler handler);
  ~Link();

  // Null while it is down.
  Channel* channel();

  // Closes the channel, if there is one, and connects no more. No callback comes after this.
  void stop();

 private:
  class State;

  explicit Link(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace tandem::net
