#include "ps/connect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/descriptor.h"
#include "ps/greeting.h"

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
  return socket;
}

Status greet(net::SecureSocket& socket, const std::string& token, Deadline deadline) {
  TANDEM_ASSIGN(Greeting greeting, Greeting::create(net::Role::kConnects, secret_of(token)));
  for (;;) {
    auto moved = greeting.turn(socket);
    if (!moved.ok()) return std::move(moved).error().within("greet the server");
    if (greeting.is_done()) return {};
    if (*moved) continue;
    TANDEM_TRY(socket.flush());
    const short events = socket.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    TANDEM_TRY(await(socket.fd(), events, deadline, "greet the server"));
  }
}

Result<net::SecureSocket> open(Descriptor connected, const std::string& token,
                               const std::shared_ptr<const net::Tls>& tls, Deadline deadline) {
  TANDEM_ASSIGN(net::SecureSocket socket,
                net::SecureSocket::create(std::move(connected), net::Role::kConnects, tls));
  TANDEM_TRY(greet(socket, token, deadline));
  return socket;
}

}  // namespace

Result<net::SecureSocket> connect_to(const net::Endpoint& endpoint, const std::string& token,
                                     const std::shared_ptr<const net::Tls>& tls,
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
      auto connected = connect_once(*each, deadline);
      if (connected.ok()) {
        auto opened = open(std::move(connected).value(), token, tls, deadline);
        // One that closes has too many strangers just now.
        if (opened.ok() || opened.error().code() != Code::kPeerLost) return opened;
        why = opened.error().message();
      } else {
        why = connected.error().message();
      }
    }
    if (left_ms(last_try) == 0) return Error(Code::kPeerLost, why);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace tandem::ps
