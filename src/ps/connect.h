// Connects a worker to a parameter server and proves both to each other.
#pragma once

#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "collective/membership.h"
#include "net/address.h"

namespace tandem::ps {

// A socket that does not block, behind the greeting. Tries again for a second while nobody listens
// there, then kPeerLost. kDenied when the server has another token.
Result<Descriptor> connect_to(const net::Endpoint& endpoint, const std::string& token,
                              collective::Deadline deadline);

}  // namespace tandem::ps
