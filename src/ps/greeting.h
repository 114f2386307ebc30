// How a connection between a worker and a parameter server begins: both agree on TLS, where there
// is TLS, and inside it prove to each other that they know the job's token (net/greeter.h).
//
// Nothing here waits. Belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/result.h"
#include "net/greeter.h"
#include "net/secure_socket.h"

namespace tandem::ps {

// What a token means for the greeting.
net::Secret secret_of(const std::string& token);

class Greeting {
 public:
  // An error only when the system has no random bytes.
  static Result<Greeting> create(net::Role role, const net::Secret& secret);

  // Goes as far as it can without waiting; whether anything has come. kDenied when one of the two
  // does not accept the other, kPeerLost when the peer is gone.
  Result<bool> turn(net::SecureSocket& socket);
  bool is_done() const { return done_; }

 private:
  explicit Greeting(net::Greeter greeter) : greeter_(std::move(greeter)) {}

  Status take(net::SecureSocket& socket, const net::Greeter::Turn& turn);

  net::Greeter greeter_;
  bool agreed_ = false, done_ = false;
  // Never more than the message that is due.
  std::array<char, net::kHelloBytes> input_;
  std::size_t input_bytes_ = 0;
};

}  // namespace tandem::ps
