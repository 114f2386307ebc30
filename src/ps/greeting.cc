#include "ps/greeting.h"

#include <utility>

#include "net/crypto.h"

namespace tandem::ps {

net::Secret secret_of(const std::string& token) {
  net::Secret secret;
  secret.bytes = net::derive_key(token, "", "tandem parameter servers");
  return secret;
}

Result<Greeting> Greeting::create(net::Role role, const net::Secret& secret) {
  TANDEM_ASSIGN(net::Greeter greeter, net::Greeter::create(role, secret));
  return Greeting(std::move(greeter));
}

Result<bool> Greeting::turn(net::SecureSocket& socket) {
  if (!agreed_) {
    TANDEM_ASSIGN(agreed_, socket.agree());
    if (!agreed_) return false;
    TANDEM_TRY(take(socket, greeter_.begin()));
  }
  iovec part{input_.data() + input_bytes_, input_.size() - input_bytes_};
  TANDEM_ASSIGN(const std::size_t got, socket.receive({&part, 1}));
  input_bytes_ += got;
  if (input_bytes_ < input_.size()) return got > 0;
  input_bytes_ = 0;
  TANDEM_TRY(take(socket, greeter_.take({input_.data(), input_.size()})));
  return true;
}

Status Greeting::take(net::SecureSocket& socket, const net::Greeter::Turn& turn) {
  if (!turn.send.empty()) {
    iovec part{const_cast<char*>(turn.send.data()), turn.send.size()};
    TANDEM_ASSIGN(const std::size_t sent, socket.send({&part, 1}));
    // A few bytes on a fresh connection always fit.
    if (sent != turn.send.size()) return Error(Code::kPeerLost, "the peer does not read");
  }
  if (!turn.end) return {};
  if (!turn.end->ok()) return turn.end->error();
  done_ = true;
  return {};
}

}  // namespace tandem::ps
