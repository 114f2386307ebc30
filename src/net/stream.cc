#include "net/stream.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ssl.hpp>
#include <type_traits>
#include <utility>

#include "net/address.h"
#include "net/opening.h"

namespace tandem::net {

namespace {

using Socket = asio::ip::tcp::socket;
using TlsSocket = asio::ssl::stream<Socket>;

// TLS decrypts no more than this at once.
constexpr std::size_t kTlsRecordBytes = std::size_t{16} << 10;

template <typename AnySocket>
class AsioStream final : public Stream, public std::enable_shared_from_this<AsioStream<AnySocket>> {
 public:
  static constexpr bool kTls = std::is_same_v<AnySocket, TlsSocket>;

  AsioStream(Loop& loop, Descriptor socket, Role role, std::shared_ptr<Tls> tls)
      : loop_(loop), role_(role), tls_(std::move(tls)), socket_(make_socket(loop)) {
    const int family = family_of(socket.get());
    peer_ = peer_of(socket.get());
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    asio::error_code error;
    lowest().assign(family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.get(),
                    error);
    if (!error) socket.release();
    if (!error) lowest().non_blocking(true, error);
    broken_ = error;
  }

  void open(Opened done) override {
    loop_.post([self = this->shared_from_this(), done = std::move(done)] {
      if (self->closed_) return;
      if (self->broken_) return done(self->translate("use a connection", self->broken_));
      self->role_ == Role::kListens ? self->await_opening(done) : self->agree(done);
    });
  }

  bool has_heard() const override { return heard_; }

  void read(std::size_t most, Read done) override {
    if constexpr (kTls) {
      reading_ = true;
      buffer_.resize(std::max(buffer_.size(), std::min(most, kTlsRecordBytes)));
      socket_.async_read_some(asio::buffer(buffer_.data(), std::min(most, buffer_.size())),
                              [self = this->shared_from_this(), done = std::move(done)](
                                  const asio::error_code& error, std::size_t size) {
                                if (self->closed_) return;
                                self->reading_ = false;
                                if (error) return done(self->translate("receive", error));
                                done(std::string_view(self->buffer_.data(), size));
                              });
    } else {
      // Waits first and receives into memory that all connections share, so that a silent
      // connection needs none.
      socket_.async_wait(Socket::wait_read, [self = this->shared_from_this(), most,
                                             done = std::move(done)](asio::error_code error) {
        if (self->closed_) return;
        const std::span<char> into = self->loop_.scratch();
        std::size_t size = 0;
        if (!error) {
          size = self->socket_.read_some(asio::buffer(into.data(), std::min(most, into.size())),
                                         error);
        }
        if (error == asio::error::would_block || error == asio::error::try_again ||
            error == asio::error::interrupted) {
          return self->read(most, done);
        }
        if (error) return done(self->translate("receive", error));
        done(std::string_view(into.data(), size));
      });
    }
  }

  void write(std::span<const std::string_view> pieces, Written done) override {
    std::size_t used = 0;
    for (; used < std::min(pieces.size(), gather_.size()); ++used)
      gather_[used] = asio::buffer(pieces[used].data(), pieces[used].size());
    // Empty buffers at the end change nothing.
    std::fill(gather_.begin() + static_cast<std::ptrdiff_t>(used), gather_.end(),
              asio::const_buffer());
    socket_.async_write_some(gather_, [self = this->shared_from_this(), done = std::move(done)](
                                          const asio::error_code& error, std::size_t size) {
      if (self->closed_) return;
      if (error) return done(self->failed_to_write(error));
      done(size);
    });
  }

  void finish() override {
    asio::error_code ignored;
    lowest().shutdown(Socket::shutdown_send, ignored);
  }

  void close() override {
    if (std::exchange(closed_, true)) return;
    asio::error_code ignored;
    lowest().shutdown(Socket::shutdown_send, ignored);
    lowest().close(ignored);
  }

  void close_with(std::string_view word) override {
    if constexpr (!kTls) {
      asio::error_code ignored;
      if (!closed_) socket_.write_some(asio::buffer(word.data(), word.size()), ignored);
    }
    close();
  }

  const std::string& peer() const override { return peer_; }

 private:
  void await_opening(const Opened& done) {
    lowest().async_wait(
        Socket::wait_read, [self = this->shared_from_this(), done](const asio::error_code& error) {
          if (self->closed_) return;
          if (error) return done(self->translate("receive", error));
          const auto begun = look_at_opening(self->lowest().native_handle(),
                                             kTls ? Language::kTls : Language::kClear);
          if (!begun.ok()) return done(begun.error());
          self->heard_ = *begun;
          *begun ? self->agree(done) : self->await_opening(done);
        });
  }

  void agree(const Opened& done) {
    if constexpr (kTls) {
      socket_.async_handshake(
          role_ == Role::kConnects ? TlsSocket::client : TlsSocket::server,
          [self = this->shared_from_this(), done](const asio::error_code& error) {
            if (self->closed_) return;
            done(error ? Status(self->translate("agree on TLS", error)) : Status());
          });
    } else {
      done({});
    }
  }

  Error translate(std::string_view doing, const asio::error_code& error) {
    if (error == asio::error::eof || error == asio::ssl::error::stream_truncated)
      return Error(Code::kPeerLost, fmt::format("{}: the peer closed the connection", doing));
    if (error.category() == asio::error::get_system_category())
      return system_error(doing, error.value());
    std::string text = error.message();
    if constexpr (kTls) {
      if (error.category() == asio::error::get_ssl_category()) {
        // Asio keeps OpenSSL's number in an int.
        const auto number = static_cast<unsigned long>(static_cast<unsigned>(error.value()));
        text = explain_tls(number, socket_.native_handle());
      }
    }
    return Error(Code::kDenied, fmt::format("{}: {}", doing, text));
  }

  // Why writing failed. A peer that takes nothing any more may have said why: that our certificate
  // is not accepted comes after this side's part of TLS's handshake.
  Error failed_to_write(const asio::error_code& error) {
    if constexpr (kTls) {
      char byte = 0;
      asio::error_code heard;
      if (!reading_) socket_.read_some(asio::buffer(&byte, 1), heard);
      if (heard.category() == asio::error::get_ssl_category()) return translate("send", heard);
    }
    return translate("send", error);
  }

  AnySocket make_socket(Loop& loop) {
    if constexpr (kTls) {
      return AnySocket(loop.context(), tls_->begin());
    } else {
      return AnySocket(loop.context());
    }
  }

  Socket& lowest() {
    if constexpr (kTls) {
      return socket_.next_layer();
    } else {
      return socket_;
    }
  }

  Loop& loop_;
  const Role role_;
  const std::shared_ptr<Tls> tls_;
  AnySocket socket_;
  std::string peer_;
  asio::error_code broken_;  // What went wrong when the socket was taken over.
  bool closed_ = false;
  // For TLS only.
  bool reading_ = false;
  bool heard_ = false;
  std::string buffer_;
  std::array<asio::const_buffer, 16> gather_;
};

}  // namespace

std::shared_ptr<Stream> make_stream(Loop& loop, Descriptor socket, Role role,
                                    const std::shared_ptr<Tls>& tls) {
  if (tls != nullptr)
    return std::make_shared<AsioStream<TlsSocket>>(loop, std::move(socket), role, tls);
  return std::make_shared<AsioStream<Socket>>(loop, std::move(socket), role, tls);
}

}  // namespace tandem::net
