// Frames: how messages travel on a stream socket. Each is a fixed header and a protobuf payload,
// little-endian:
//
//   offset  size  field     meaning
//        0     4  magic     54 44 4d 46, "TDMF"
//        4     2  version   kFrameVersion; a reader refuses any other
//        6     2  reserved  0; a reader refuses anything else
//        8     4  length    bytes of payload, at most kMaxPayloadBytes
//       12     4  checksum  low half of XXH3-64(payload), seeded with XXH3-64(the 12 bytes above)
//       16     n  payload   a WorkerMessage
//
// docs/wire-format.md says the same for readers of other languages. Whatever a peer sends costs at
// most the bytes it really sent: a length is a claim to check, never a size to allocate.
//
// send() may be called by one thread at a time for a descriptor; a FrameReader belongs to one
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/worker.pb.h"

namespace tandem::wire {

inline constexpr std::uint16_t kFrameVersion = 1;
inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{16} << 20;

// The message as one frame. kInvalidArgument when it is larger than a frame may be.
Result<std::string> encode(const WorkerMessage& message);

// Writes the message as one frame. kPeerLost when the other end is closed, kTimeout when it does
// not read for so long; after a failure part of the frame may be out, and the socket is of no more
// use. REQUIRES: `fd` is a stream socket.
Status send(int fd, const WorkerMessage& message,
            std::chrono::milliseconds patience = std::chrono::seconds(30));

// Turns the bytes of a stream, in pieces of any size, into messages.
class FrameReader {
 public:
  // Takes bytes as they came from the socket. Ignored after an error.
  void feed(std::span<const std::byte> bytes);

  // The next whole message, or nothing until more bytes are fed. kCorrupt or kVersionMismatch when
  // the bytes are no frame; nothing after that can be trusted, so every later call returns the same
  // error.
  Result<std::optional<WorkerMessage>> next();

  // Whether the stream would end inside a frame if it ended here.
  bool inside_frame() const { return position_ < buffer_.size(); }

 private:
  Error fail(Error error);

  std::string buffer_;
  std::size_t position_ = 0;  // Where the first frame that was not returned yet starts.
  std::optional<Error> error_;
};

}  // namespace tandem::wire
