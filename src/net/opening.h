// The first byte of a connection tells whether who connects speaks TLS. Who listens looks at it
// before all else, so that a peer that is not let in for this alone learns why, in its own
// language. For any thread.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace tandem::net {

enum class Language : std::uint8_t { kClear, kTls };

// Looks without taking or waiting. Whether the peer has begun, and as `ours` would; kDenied when it
// speaks the other language, after it was told so; kPeerLost when it is gone. What is neither of
// the two is left to whoever reads it.
Result<bool> look_at_opening(int socket, Language ours);

}  // namespace tandem::net
