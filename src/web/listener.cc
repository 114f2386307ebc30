#include "web/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace tandem::web {
namespace {

constexpr int kBacklog = 256;
constexpr int kMostPort = 65535;

Error cannot_listen(const std::string& address, int port, int error_number) {
  const std::string where = fmt::format("listen at {} port {}", address, port);
  switch (error_number) {
    case EADDRINUSE:
      return Error(Code::kInvalidArgument,
                   fmt::format("{}: another program uses this port; is a master running already? "
                               "Stop it, or choose another port (0: a free one)",
                               where));
    case EADDRNOTAVAIL:
      return Error(Code::kInvalidArgument,
                   fmt::format("{}: this machine does not have that address; `ip address` lists "
                               "those that it has (0.0.0.0: all of them)",
                               where));
    case EACCES:
      return Error(Code::kDenied,
                   fmt::format("{}: ports below 1024 need rights; choose a higher one", where));
    default:
      return system_error(where, error_number);
  }
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in*>(&address)->sin_port
                   : reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

}  // namespace

Result<Listener> listen_at(const std::string& address, int port) {
  if (port < 0 || port > kMostPort)
    return Error(Code::kInvalidArgument, fmt::format("{} is no port; 0 to 65535 are", port));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("listen at {}: {}; give an IP address or a name of this machine",
                             address, ::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  Descriptor socket(
      ::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return cannot_listen(address, port, errno);
  const int yes = 1;
  // Not SO_REUSEPORT: two masters would share the clients.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return cannot_listen(address, port, errno);
  }
  const int bound = port_of(socket.get());
  return Listener{.socket = std::move(socket), .port = bound};
}

}  // namespace tandem::web
