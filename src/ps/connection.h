// One end of a connection between a worker and a parameter server: messages on a socket, which may
// be inside TLS, and, once both ends share memory, pushes and results in rings whose payload stays
// where it lies.
//
// Nothing here waits: turn() moves what can be moved now. Belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/secure_socket.h"
#include "ps/fifo.h"
#include "ps/message.h"
#include "ps/ring.h"

namespace tandem::ps {

// Who takes what comes. An Error of either ends the connection.
class Receiver {
 public:
  virtual ~Receiver() = default;

  // Where the payload shall go: memory of header.bytes bytes that stays until message().
  virtual Result<std::span<std::byte>> place(const Header& header) = 0;
  // All of it is there: where place() said, or in the peer's memory.
  virtual Status message(const Header& header, std::span<const std::byte> payload) = 0;
};

// Memory that both ends map, each its own and the other's.
struct SharedMemory {
  RingMemory* out = nullptr;
  RingMemory* in = nullptr;
  std::span<const std::byte> own;
  std::span<const std::byte> peers;
};

class Connection {
 public:
  // `peer` is what errors call the other end: "worker 2 (10.0.0.3:4711)".
  Connection(net::SecureSocket socket, std::string peer);

  const std::string& peer() const { return peer_; }
  int fd() const { return socket_.fd(); }
  // For the greeting, before anything else is sent or received.
  net::SecureSocket& socket() { return socket_; }

  // Queues a message. The payload must stay as it is until it was sent, or the connection ends;
  // `owner`, if any, is kept so long, for memory that others may give up before a slow peer reads.
  void send(const Header& header, std::span<const std::byte> payload = {},
            std::shared_ptr<const void> owner = {});
  // The same for a result, which overtakes those of earlier pieces that are not on their way: what
  // is ready last is needed first (ps/push_order.h).
  void send_ahead(const Header& result, std::span<const std::byte> payload);
  // Leaves little in the kernel, where nothing can be overtaken. Then somebody must turn() it while
  // there is more.
  void keep_unsent_here();
  // The same with a payload of its own.
  void send_text(Header header, std::string payload);

  // Only texts are still sent, and no shared memory is looked at any more: all of it may go. When a
  // payload is half sent nothing follows it, and no text either: the peer sees the end.
  void forget_memory();

  void share(const SharedMemory& memory);
  bool is_shared() const { return shared_.has_value(); }

  // Sends and receives what it can without waiting; whether that was anything. kPeerLost when the
  // other end is gone, kCorrupt when it sent what it must not.
  Result<bool> turn(Receiver& receiver);

  // Only sends.
  Result<bool> flush();

  // Whether the socket must be writable before turn() can go on.
  bool has_unsent() const { return !queue_.empty() || socket_.has_unsent(); }
  // What results that are not yet on their way cost (ps/credit.h).
  std::uint64_t unsent_results() const { return unsent_results_; }
  // Messages that are not yet on their way.
  std::size_t unsent_messages() const {
    return queue_.size() + (shared_ ? shared_->waiting.size() : 0);
  }
  // Whether headers wait for room in the ring.
  bool waits_for_ring() const { return shared_ && !shared_->waiting.empty(); }
  // Before sleeping: false when something has come already.
  bool doze() { return !socket_.has_unread() && (!shared_ || shared_->in.doze()); }
  void wake() {
    if (shared_) shared_->in.wake();
    quiet_turns_ = 0;
  }

  std::uint64_t sent_bytes() const { return sent_bytes_; }
  std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct Outgoing {
    HeaderBytes header;
    std::span<const std::byte> lent;
    std::string text;
    std::shared_ptr<const void> owner = {};
    std::uint64_t result_cost = 0;   // 0: it is none.
    std::uint64_t result_place = 0;  // Its piece.

    std::span<const std::byte> payload() const {
      return text.empty() ? lent : std::as_bytes(std::span(text));
    }
  };
  struct Shared {
    RingWriter out;
    RingReader in;
    std::span<const std::byte> own, peers;
    Fifo<Header> waiting;  // For room in the ring.
  };

  // One system call of each; whether, and how much, it moved.
  Result<bool> send_some();
  Result<std::size_t> receive_some(Receiver& receiver);
  Result<bool> read_ring(Receiver& receiver);
  bool write_ring();
  bool is_own(std::span<const std::byte> payload) const;
  Status take(Receiver& receiver);

  net::SecureSocket socket_;
  std::string peer_;
  Fifo<Outgoing> queue_;
  std::size_t sent_of_first_ = 0;

  // Bytes that were received and not yet taken: headers and small payloads.
  std::array<std::byte, 16384> input_;
  std::size_t input_begin_ = 0, input_end_ = 0;
  std::optional<Header> header_;  // Its payload is under way.
  std::span<std::byte> payload_;
  std::size_t received_of_payload_ = 0;

  std::optional<Shared> shared_;
  unsigned quiet_turns_ = 0;  // Since the socket was looked at.
  bool keeps_unsent_ = false;
  std::uint64_t sent_bytes_ = 0, received_bytes_ = 0, unsent_results_ = 0;
};

}  // namespace tandem::ps
