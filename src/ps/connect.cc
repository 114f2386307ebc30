#include "ps/connect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "net/greeter.h"
#include "ps/server.h"

namespace tandem::ps {
namespace {

using collective::Deadline;
using std::chrono::milliseconds;

int left_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

Status await(int socket, short events, Deadline deadline, const char* doing) {
  pollfd entry{socket, events, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, left_ms(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error(doing, errno);
    if (left_ms(deadline) == 0) return Error(Code::kTimeout, fmt::format("{}: no answer", doing));
  }
}

Result<Descriptor> connect_once(const addrinfo& address, Deadline deadline) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_error("make a socket", errno);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return system_error("connect", errno);
    TANDEM_TRY(await(socket.get(), POLLOUT, deadline, "connect"));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return system_error("connect", error);
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Status receive(int socket, std::span<char> into, Deadline deadline) {
  while (!into.empty()) {
    TANDEM_TRY(await(socket, POLLIN, deadline, "greet the server"));
    const ssize_t got = ::recv(socket, into.data(), into.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return system_error("greet the server", errno);
    if (got == 0) return Error(Code::kPeerLost, "the server ended the greeting");
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Status greet(int socket, const std::string& token, Deadline deadline) {
  TANDEM_ASSIGN(net::Greeter greeter, net::Greeter::create(net::Role::kConnects, secret_of(token)));
  std::array<char, net::kHelloBytes> message;
  for (net::Greeter::Turn turn = greeter.begin();;
       turn = greeter.take({message.data(), message.size()})) {
    // A few bytes on a fresh connection always fit.
    if (!turn.send.empty() &&
        ::send(socket, turn.send.data(), turn.send.size(), MSG_NOSIGNAL) != std::ssize(turn.send))
      return system_error("greet the server", errno);
    if (turn.end) return turn.end->ok() ? Status() : Status(turn.end->error());
    TANDEM_TRY(receive(socket, message, deadline));
  }
}

}  // namespace

Result<Descriptor> connect_to(const net::Endpoint& endpoint, const std::string& token,
                              Deadline deadline) {
  // It served when its address was given away: one that refuses for so long is gone.
  constexpr milliseconds kPause{20}, kRefusing{1000};
  const Deadline last_try = std::min(deadline, collective::deadline_after(kRefusing));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0) {
    return Error(Code::kNotFound,
                 fmt::format("look up {}: {}", endpoint.host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (;;) {
    std::string why;
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      auto socket = connect_once(*each, deadline);
      if (socket.ok()) {
        TANDEM_TRY(greet(socket->get(), token, deadline));
        return socket;
      }
      why = socket.error().message();
    }
    if (left_ms(last_try) == 0) return Error(Code::kPeerLost, why);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace tandem::ps
