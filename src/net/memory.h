// Two channels that are connected inside one process, for tests of whatever talks over channels,
// with faults on demand: messages that get lost, that take time, a connection that breaks. They
// keep the promises of net/channel.h otherwise, beats and limits included. They and the hook belong
// to the thread of their Loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "net/channel.h"
#include "net/limits.h"
#include "net/loop.h"

namespace tandem::net {

enum class Side { kFirst, kSecond };

// What becomes of a message on its way.
struct Fate {
  enum class Kind {
    kArrives,
    kIsLost,         // As if it had never been sent.
    kBreaksChannel,  // Both sides see kPeerLost.
  };
  Kind kind = Kind::kArrives;
  // How long it takes; later messages of the same side wait behind it.
  std::chrono::milliseconds delay{0};
};

// Asked for every message, and for every beat (kind kBeat), when it is sent.
using Hook = std::function<Fate(Side from, std::uint16_t kind, std::string_view bytes)>;

struct MemoryPair {
  std::unique_ptr<Channel> first;
  std::unique_ptr<Channel> second;
  // Breaks the connection: both sides see kPeerLost.
  std::function<void()> cut;
};

MemoryPair memory_pair(Loop& loop, const Limits& limits = {}, Hook hook = nullptr);

}  // namespace tandem::net
