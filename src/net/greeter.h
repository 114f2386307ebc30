// One side of the greeting with which two programs prove to each other that they know the cluster's
// secret (net/hello.h has the messages and the reasoning), without sockets: bytes go in, bytes come
// out. Belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto.h"
#include "net/hello.h"
#include "net/secret.h"

namespace tandem::net {

// The keys of a connection's two directions.
struct Keys {
  Key sends;
  Key receives;
};

class Greeter {
 public:
  // What is to be done now: send this, and then end with the keys or the error, or wait for the
  // peer's next kHelloBytes bytes.
  struct Turn {
    std::string send;
    std::optional<Result<Keys>> end;
  };

  // An error only when the system has no random bytes.
  static Result<Greeter> create(Role role, const Secret& secret);

  Turn begin();
  // REQUIRES: kHelloBytes bytes; no turn has ended it.
  Turn take(std::string_view message);

 private:
  enum class Stage : std::uint8_t { kHello, kProof };

  Greeter(Role role, const Secret& secret, const HelloBytes& hello)
      : role_(role), secret_(secret), our_hello_(hello) {}

  Turn take_hello_of_who_connects(std::string_view message);
  Turn take_hello_of_who_listens(std::string_view message);
  Turn take_proof(std::string_view message);
  void learn(std::string_view their_hello, const Hello& hello);
  Digest proof(Role role) const;
  Turn reject(Reason reason, std::string before = {}) const;
  Keys keys() const;

  Role role_;
  Secret secret_;
  Stage stage_ = Stage::kHello;
  HelloBytes our_hello_;
  std::string nonces_;  // Of who connects, then of who listens.
  std::string hellos_;  // Likewise.
  std::uint16_t their_version_ = 0;
};

}  // namespace tandem::net
