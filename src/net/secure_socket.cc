#include "net/secure_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/opening.h"

namespace tandem::net {
namespace {

// What TLS encrypts at once at most.
constexpr std::size_t kRecordBytes = std::size_t{16} << 10;
// Encrypted bytes for one system call, about; the socket's buffer takes no more at a time anyway.
constexpr std::size_t kBatchBytes = 4 * kRecordBytes;
// After so many bytes a direction gets a new key. AES-GCM must not protect more than 2^24 records
// with one (RFC 8446, 5.5), which takes minutes at the speed of a training.
constexpr std::uint64_t kKeyBytes = std::uint64_t{64} << 20;
// Every Linux has it.
constexpr std::string_view kUnpaced = "reno";

Error lost(int error) {
  return Error(Code::kPeerLost, std::strerror(error));
}

Error closed() {
  return Error(Code::kPeerLost, "the peer closed the connection");
}

bool is_not_now(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// Takes bytes of the parts until `into` is full or they are used up; how many.
std::size_t gather(std::span<iovec>& parts, std::span<char> into) {
  std::size_t total = 0;
  while (!parts.empty() && total < into.size()) {
    iovec& part = parts.front();
    const std::size_t some = std::min(part.iov_len, into.size() - total);
    if (some > 0) std::memcpy(into.data() + total, part.iov_base, some);
    total += some;
    part.iov_base = static_cast<char*>(part.iov_base) + some;
    part.iov_len -= some;
    if (part.iov_len == 0) parts = parts.subspan(1);
  }
  return total;
}

}  // namespace

// One end inside TLS. OpenSSL reads from the socket and writes to memory, from where it is sent: so
// it never waits for room, and reading never depends on writing.
class SecureSocket::Session {
 public:
  Session(SSL* ssl, int socket, Role role) : ssl_(ssl), socket_(socket) {
    BIO* const bio = BIO_new(method());
    if (bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    // Without resumption a ticket is only one more message.
    SSL_set_num_tickets(ssl, 0);
    // Several records by one system call.
    SSL_set_read_ahead(ssl, 1);
    SSL_set_default_read_buffer_len(ssl, kBatchBytes);
    role == Role::kConnects ? SSL_set_connect_state(ssl) : SSL_set_accept_state(ssl);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Result<bool> agree() {
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1) {
      TANDEM_TRY(flush());
      return true;
    }
    if (SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ) {
      TANDEM_TRY(flush());
      return false;
    }
    Error why = explain();
    // What OpenSSL has to say of it to the peer; whether it arrives changes nothing.
    [[maybe_unused]] const Result<bool> said = flush();
    return std::move(why).within("agree on TLS");
  }

  Result<std::size_t> send(std::span<iovec> parts) {
    TANDEM_TRY(flush());
    if (has_unsent()) return std::size_t{0};
    std::array<char, kRecordBytes> record;
    std::size_t total = 0;
    while (out_.size() < kBatchBytes) {
      const std::size_t size = gather(parts, record);
      if (size == 0) break;
      TANDEM_TRY(write({record.data(), size}));
      total += size;
    }
    TANDEM_TRY(flush());
    return total;
  }

  Result<bool> flush() {
    if (!has_unsent()) return false;
    const ssize_t sent =
        ::send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && is_not_now(errno)) return false;
    if (sent < 0) return last_word(lost(errno));
    sent_ += static_cast<std::size_t>(sent);
    if (!has_unsent()) {
      out_.clear();
      sent_ = 0;
    }
    return true;
  }
  bool has_unsent() const { return sent_ < out_.size(); }

  Result<std::size_t> receive(std::span<iovec> parts) {
    if (failure_) return *failure_;
    std::size_t total = 0;
    for (const iovec& part : parts) {
      for (std::size_t at = 0; at < part.iov_len;) {
        std::size_t got = 0;
        ERR_clear_error();
        const int done = SSL_read_ex(ssl_.get(), static_cast<char*>(part.iov_base) + at,
                                     part.iov_len - at, &got);
        if (done == 1) {
          at += got;
          total += got;
          trusted_ = true;
          continue;
        }
        has_unread_ = false;
        if (SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ) return total;
        failure_ = explain();
        // What came before it counts.
        if (total == 0) return *failure_;
        has_unread_ = true;
        return total;
      }
    }
    has_unread_ = true;
    return total;
  }
  bool has_unread() const { return has_unread_; }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* const method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tandem socket");
      TANDEM_CHECK(method != nullptr);
      BIO_meth_set_read(method, &Session::take);
      BIO_meth_set_write(method, &Session::put);
      BIO_meth_set_ctrl(method, [](BIO*, int command, long, void*) -> long {
        return command == BIO_CTRL_FLUSH ? 1 : 0;
      });
      return method;
    }();
    return made;
  }

  static int take(BIO* bio, char* into, int size) {
    auto* const self = static_cast<Session*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const ssize_t got = ::recv(self->socket_, into, static_cast<std::size_t>(size), MSG_DONTWAIT);
    if (got > 0) return static_cast<int>(got);
    if (got < 0 && is_not_now(errno)) {
      BIO_set_retry_read(bio);
    } else {
      self->end_ = got == 0 ? closed() : lost(errno);
    }
    return -1;
  }

  static int put(BIO* bio, const char* bytes, int size) try {
    auto* const self = static_cast<Session*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    self->out_.insert(self->out_.end(), bytes, bytes + size);
    return size;
  } catch (const std::bad_alloc&) {
    return -1;
  }

  Status write(std::span<const char> record) {
    ERR_clear_error();
    if (key_bytes_ >= kKeyBytes) {
      // The peer need not answer with a new key of its own: it counts by itself.
      if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return explain();
      key_bytes_ = 0;
    }
    std::size_t written = 0;
    if (SSL_write_ex(ssl_.get(), record.data(), record.size(), &written) != 1)
      return last_word(explain());
    TANDEM_CHECK(written == record.size());
    key_bytes_ += written;
    return {};
  }

  // Why OpenSSL's last call failed.
  Error explain() {
    if (end_) return *end_;
    // The first is the cause, what follows is who passed it on.
    const unsigned long error = ERR_get_error();
    ERR_clear_error();
    std::string text = error == 0 ? "the peer ended it" : explain_tls(error, ssl_.get());
    // From a peer that has proved itself, this means that somebody between has changed bytes, or
    // that the peer says so.
    if (trusted_) return Error(Code::kPeerLost, fmt::format("TLS failed: {}", text));
    return Error(Code::kDenied, std::move(text));
  }

  // A peer that takes nothing any more may have said why: that our certificate is not accepted
  // comes after this side's part of the handshake.
  Error last_word(Error otherwise) {
    char byte = 0;
    iovec part{&byte, 1};
    const auto heard = receive({&part, 1});
    return !heard.ok() && heard.error().code() == Code::kDenied ? heard.error() : otherwise;
  }

  const std::unique_ptr<SSL, Free> ssl_;
  const int socket_;
  std::vector<char> out_;  // Encrypted; of it, so much was sent.
  std::size_t sent_ = 0;
  std::uint64_t key_bytes_ = 0;   // Sent with the same key.
  std::optional<Error> end_;      // Of the socket.
  std::optional<Error> failure_;  // Of what is to be received.
  bool has_unread_ = false;
  bool trusted_ = false;  // Something came that was encrypted.
};

Result<SecureSocket> SecureSocket::create(Descriptor socket, Role role,
                                          const std::shared_ptr<const Tls>& tls) try {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Inside a host there is no network to spare, and congestion control that paces what is sent, as
  // BBR does, takes a quarter longer for 32 MiB there and back.
  if (stays_on_host(socket.get()))
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
  std::unique_ptr<Session> session;
  if (tls != nullptr) session = std::make_unique<Session>(tls->begin(), socket.get(), role);
  return SecureSocket(std::move(socket), role, std::move(session));
} catch (const std::bad_alloc&) {
  return Error(Code::kOutOfSpace, "no memory for a connection");
}

SecureSocket::SecureSocket(Descriptor socket, Role role, std::unique_ptr<Session> session)
    : socket_(std::move(socket)), role_(role), session_(std::move(session)) {}
SecureSocket::SecureSocket(SecureSocket&&) noexcept = default;
SecureSocket& SecureSocket::operator=(SecureSocket&&) noexcept = default;
SecureSocket::~SecureSocket() = default;

bool SecureSocket::has_heard() const {
  char first = 0;
  return heard_ || ::recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

Result<bool> SecureSocket::agree() {
  if (role_ == Role::kListens && !heard_) {
    TANDEM_ASSIGN(heard_,
                  look_at_opening(socket_.get(), session_ ? Language::kTls : Language::kClear));
    if (!heard_) return false;
  }
  if (!session_) return true;
  return session_->agree();
}

Result<std::size_t> SecureSocket::send(std::span<iovec> parts) {
  if (session_) return session_->send(parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (is_not_now(errno)) return std::size_t{0};
  return lost(errno);
}

Result<bool> SecureSocket::flush() {
  if (!session_) return false;
  return session_->flush();
}

bool SecureSocket::has_unsent() const {
  return session_ && session_->has_unsent();
}

Result<std::size_t> SecureSocket::receive(std::span<iovec> parts) {
  if (session_) return session_->receive(parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return closed();
  if (is_not_now(errno)) return std::size_t{0};
  return lost(errno);
}

bool SecureSocket::has_unread() const {
  return session_ && session_->has_unread();
}

}  // namespace tandem::net
