// A listening TCP socket, with errors that say what to do. Move-only; belongs to one thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::web {

struct Listener {
  Descriptor socket;
  int port = 0;
};

// Port 0 takes a free one. kInvalidArgument when the address is in use or is not this machine's,
// kDenied when the system refuses it.
Result<Listener> listen_at(const std::string& address, int port);

}  // namespace tandem::web
