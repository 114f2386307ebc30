// Frames: how messages travel on a connection after its handshake. Each is a fixed header and a
// payload, little-endian:
//
//   offset  size  field    meaning
//        0     4  magic    54 44 4e 46, "TDNF"
//        4     2  version  kVersion; a reader refuses any other
//        6     2  kind     what the payload is, as the programs agreed; from ff00 on net's own
//        8     8  length   bytes of payload, at most Limits::message_bytes
//       16     8  counter  0 for a direction's first frame, then one more for each
//       24    16  tag      the first half of HMAC-SHA256 over bytes 0-23 and the payload
//       40     n  payload
//
// The only kind of net's own is ffff, a beat, which has no payload. The key of the tag belongs to
// the connection and the direction (net/hello.h), so a frame that was changed, repeated, left out,
// moved or recorded elsewhere is noticed. docs/wire-format.md says the same for readers of other
// languages.
//
// This file knows neither sockets nor keys: the tag is the caller's to check. A reader belongs to
// one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::net {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::uint16_t kFirstReservedKind = 0xff00;
inline constexpr std::uint16_t kBeat = 0xffff;

inline constexpr std::size_t kTaggedHeaderBytes = 24;  // What the tag covers of the header.
inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kHeaderBytes = kTaggedHeaderBytes + kTagBytes;

struct Frame {
  std::array<char, kHeaderBytes> header{};
  std::string payload;
  std::uint16_t kind = 0;  // As the header has it.

  std::string_view tagged_header() const { return {header.data(), kTaggedHeaderBytes}; }
  std::string_view tag() const { return {header.data() + kTaggedHeaderBytes, kTagBytes}; }
};

// A frame whose tag is still zeros.
Frame make_frame(std::uint16_t kind, std::string payload, std::uint64_t counter);

// Turns the bytes of one direction, in pieces of any size, into frames. Holds no more memory than
// about twice what really came of the frame under way.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_payload_bytes) : most_payload_bytes_(most_payload_bytes) {}

  // Takes bytes from the front of `bytes` up to the end of a frame and returns it, or takes all and
  // returns nothing. kCorrupt or kVersionMismatch as soon as a header is no good; nothing after
  // that can be trusted, so the connection must end. REQUIRES: no error before.
  Result<std::optional<Frame>> next(std::string_view& bytes);

 private:
  Status read_header();

  const std::size_t most_payload_bytes_;
  Frame frame_;
  std::size_t header_bytes_ = 0;   // How many of the header are there.
  std::size_t payload_bytes_ = 0;  // How many there will be.
  std::uint64_t counter_ = 0;      // Of the frame under way.
};

}  // namespace tandem::net
