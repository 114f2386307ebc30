// Waits for peers at an address and gives those that prove who they are to its owner as channels.
// Others cost little: at most Limits::waiting of them are connected at a time, each for
// Limits::handshake, and none can make this side allocate anything of note.
//
// A listener and its callbacks belong to the thread of its Loop. Its callbacks may destroy it;
// channels that it made live on.
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

class Listener {
 public:
  struct Handler {
    // A peer proved itself; the channel is to be started.
    std::function<void(std::unique_ptr<Channel> channel)> on_channel;
    // A peer did not, or connections could not be taken; for a log. An attacker decides how often
    // this comes, so a log should not keep all of them. May be empty.
    std::function<void(const std::string& address, const Error& why)> on_refused;
  };

  // Listens from now on; port 0 chooses a free one. kDenied when the security has no secret and the
  // address is not a loopback one; kInvalidArgument when the address is in use, is not of this
  // host, or a file of the security cannot be used.
  static Result<std::unique_ptr<Listener>> create(Loop& loop, const Endpoint& endpoint,
                                                  const Security& security, const Limits& limits,
                                                  Handler handler);
  ~Listener();

  // Where it listens, as numbers: "127.0.0.1".
  const std::string& host() const;
  std::uint16_t port() const;

  // Connections whose handshake is under way.
  std::size_t waiting() const;

 private:
  class State;

  explicit Listener(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace tandem::net
