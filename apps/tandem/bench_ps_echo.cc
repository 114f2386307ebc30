// What the parameter server is compared with: echoes on a blocking TCP connection of loopback. A
// plain one sends all bytes, and has all when it sends them back, as servers do that take messages;
// a streamed one sends and receives at the same time.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "bench_ps.h"

namespace tandem::cli {
namespace {

constexpr std::size_t kEchoBuffer = std::size_t{256} << 10;
// What the client sends before it looks for what has come back. Less than a receive buffer holds,
// so that both ends cannot wait for each other.
constexpr std::size_t kChunk = std::size_t{64} << 10;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void set_options(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval patience{kBenchPsPatience.count(), 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

// Fills the buffer; false when the other end closed.
Result<bool> receive_all(int socket, std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("receive from the echo", errno);
    if (got == 0) return false;
    buffer = buffer.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

Status send_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return system_error("send to the echo", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return {};
}

// Until the other end closes. Without a limit of time: who measures may do something else, and this
// process ends with it.
Status echo_whole(int socket, std::size_t bytes) {
  std::vector<std::byte> buffer(bytes);
  for (;;) {
    TANDEM_ASSIGN(const bool there, receive_all(socket, buffer));
    if (!there) return {};
    TANDEM_TRY(send_all(socket, buffer));
  }
}

Status echo_streamed(int socket) {
  std::vector<std::byte> buffer(kEchoBuffer);
  for (;;) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    TANDEM_TRY(send_all(socket, std::span(buffer).first(static_cast<std::size_t>(got))));
  }
}

}  // namespace

Status echo_for_bench(std::size_t bytes) {
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.is_open() || ::bind(listener.get(), generic, size) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), generic, &size) != 0)
    return system_error("listen on loopback", errno);
  set_options(listener.get());
  print_out(fmt::format("{}\n", ntohs(address.sin_port)));
  std::fflush(stdout);
  const Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) return system_error("wait for who measures", errno);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::array<std::byte, 1> kind{};
  TANDEM_ASSIGN(const bool there, receive_all(socket.get(), kind));
  if (!there) return {};
  return static_cast<Echo>(kind[0]) == Echo::kPlain ? echo_whole(socket.get(), bytes)
                                                    : echo_streamed(socket.get());
}

Result<EchoClient> EchoClient::connect(std::uint16_t port, Echo kind) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (!socket.is_open() ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("reach the echo", errno);
  set_options(socket.get());
  const std::array<std::byte, 1> first = {static_cast<std::byte>(kind)};
  TANDEM_TRY(send_all(socket.get(), first));
  return EchoClient(std::move(socket), kind);
}

Status EchoClient::exchange(std::span<const std::byte> out, std::span<std::byte> in) {
  if (kind_ == Echo::kStreamed) return stream(out, in);
  TANDEM_TRY(send_all(socket_.get(), out));
  TANDEM_ASSIGN(const bool there, receive_all(socket_.get(), in));
  if (!there) return Error(Code::kPeerLost, "the echo ended");
  return {};
}

Status EchoClient::stream(std::span<const std::byte> out, std::span<std::byte> in) {
  while (!in.empty()) {
    const bool more = !out.empty();
    if (more) {
      const std::size_t some = std::min(kChunk, out.size());
      TANDEM_TRY(send_all(socket_.get(), out.first(some)));
      out = out.subspan(some);
    }
    const ssize_t got = ::recv(socket_.get(), in.data(), in.size(), out.empty() ? 0 : MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || (more && errno == EAGAIN))) continue;
    if (got < 0) return system_error("receive from the echo", errno);
    if (got == 0) return Error(Code::kPeerLost, "the echo ended");
    in = in.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace tandem::cli
