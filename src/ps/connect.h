// Connects a worker to a parameter server and proves both to each other.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "collective/membership.h"
#include "net/address.h"
#include "net/secure_socket.h"

namespace tandem::ps {

// A socket behind the greeting, inside TLS where `tls` is not null. Tries again for a second while
// nobody listens there, then kPeerLost. kDenied when the server has another token or certificates
// of another authority, or when only one of the two uses TLS.
Result<net::SecureSocket> connect_to(const net::Endpoint& endpoint, const std::string& token,
                                     const std::shared_ptr<const net::Tls>& tls,
                                     collective::Deadline deadline);

}  // namespace tandem::ps
