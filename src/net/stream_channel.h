// The Channel over a Stream: frames, tags, the queue, beats. Made by net/listener.cc and
// net/link.cc once a handshake has given the keys; belongs to the thread of its Loop.
#pragma once

#include <memory>

#include "net/channel.h"
#include "net/handshake.h"
#include "net/limits.h"
#include "net/loop.h"
#include "net/stream.h"

namespace tandem::net {

std::unique_ptr<Channel> make_channel(Loop& loop, std::shared_ptr<Stream> stream, const Keys& keys,
                                      const Limits& limits);

}  // namespace tandem::net
