// A connected socket that does not block, in the clear or inside TLS 1.3: what goes in at one end
// comes out at the other, and who uses it need not know which it is. For programs that move more
// bytes than a Channel is made for (ps/connection.h).
//
// Nothing here waits, and nothing raises SIGPIPE. Belongs to one thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "base/descriptor.h"
#include "base/result.h"
#include "net/hello.h"
#include "net/tls.h"

namespace tandem::net {

class SecureSocket {
 public:
  // In the clear where `tls` is null. Sets what suits the socket: nothing waits for more, or for a
  // pace inside a host. REQUIRES: the socket does not block.
  static Result<SecureSocket> create(Descriptor socket, Role role,
                                     const std::shared_ptr<const Tls>& tls);
  SecureSocket(SecureSocket&&) noexcept;
  SecureSocket& operator=(SecureSocket&&) noexcept;
  ~SecureSocket();

  int fd() const { return socket_.get(); }
  // Of who listens: whether the peer has sent anything, taken or not.
  bool has_heard() const;

  // Agrees with the peer on TLS, or that there is none; this comes before all else. Whether that is
  // done; else poll() for what is awaited and call it again. kDenied when only one of the two has
  // TLS, or when either does not accept the other's certificate; both get to know why.
  Result<bool> agree();

  // Takes bytes of the parts in a row; how many, 0 when the socket is full. Inside TLS they may
  // still be here afterwards, see has_unsent(). kPeerLost when nobody takes them any more.
  Result<std::size_t> send(std::span<iovec> parts);
  // Sends what send() has taken; whether any of it could be sent.
  Result<bool> flush();
  bool has_unsent() const;

  // Fills the parts in a row with what has come; how many bytes, 0 when there is nothing now.
  // kPeerLost at the end, or when somebody has changed what the peer sent; kDenied when the peer
  // did not accept our certificate.
  Result<std::size_t> receive(std::span<iovec> parts);
  // Something may have come that poll() does not show: receive() before waiting for it.
  bool has_unread() const;

 private:
  class Session;

  SecureSocket(Descriptor socket, Role role, std::unique_ptr<Session> session);

  Descriptor socket_;
  Role role_;
  bool heard_ = false;                // By agree(), of who listens.
  std::unique_ptr<Session> session_;  // Null in the clear.
};

}  // namespace tandem::net
