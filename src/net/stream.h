// A connected stream of bytes, in the clear or inside TLS. Who opens it owns it; it and its
// callbacks belong to the thread of its Loop. The only files that include Asio are loop.cc,
// stream.cc and connect.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "net/hello.h"
#include "net/loop.h"
#include "net/tls.h"

namespace tandem::net {

class Stream {
 public:
  using Opened = std::function<void(Status)>;
  using Read = std::function<void(Result<std::string_view>)>;
  using Written = std::function<void(Result<std::size_t>)>;

  virtual ~Stream() = default;

  // Runs TLS's own handshake, where there is TLS; who listens waits for the peer to begin. kDenied
  // when only one of the two has TLS, or when either does not accept the other's certificate; both
  // get to know why. Comes before anything else.
  virtual void open(Opened done) = 0;
  // Whether the peer has sent anything, if only TLS's first bytes; where it is known.
  virtual bool has_heard() const = 0;

  // Gives between 1 and `most` bytes as soon as there are any, valid during the call; kPeerLost at
  // the stream's end. REQUIRES: no read is under way.
  virtual void read(std::size_t most, Read done) = 0;

  // Writes the pieces in a row, as much as fits, and gives how many bytes did. The pieces' bytes
  // must stay until then. REQUIRES: no write is under way; there is at least one byte.
  virtual void write(std::span<const std::string_view> pieces, Written done) = 0;

  // Tells the peer that nothing more comes. Reading goes on. REQUIRES: no write is under way, and
  // none follows.
  virtual void finish() = 0;

  // No callback comes after this. What was written is still sent, unless the peer has sent
  // something that was not read.
  virtual void close() = 0;

  // Closes with a last word, where it can be said without waiting; inside TLS it is left unsaid.
  // REQUIRES: no write is under way.
  virtual void close_with(std::string_view word) = 0;

  virtual const std::string& peer() const = 0;
};

std::shared_ptr<Stream> make_stream(Loop& loop, Descriptor socket, Role role,
                                    const std::shared_ptr<Tls>& tls);

}  // namespace tandem::net
