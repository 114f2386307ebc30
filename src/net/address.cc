#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace tandem::net {
namespace {

// Addresses are copied out, because a sockaddr* need not be aligned for what it points to.
template <typename Address>
Address copy(const sockaddr* address) {
  Address result{};
  std::memcpy(&result, address, sizeof result);
  return result;
}

enum class Where { kUnknown, kHere, kElsewhere };

Where reach_of(const std::string& host) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  const sockaddr* address = nullptr;
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1)
    address = reinterpret_cast<const sockaddr*>(&four);
  if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1)
    address = reinterpret_cast<const sockaddr*>(&six);
  if (address == nullptr) return Where::kUnknown;
  return is_loopback(address) ? Where::kHere : Where::kElsewhere;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool colons = endpoint.host.find(':') != std::string::npos;
  return colons ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

Endpoint endpoint_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto four = copy<sockaddr_in>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return {text, ntohs(four.sin_port)};
  }
  if (address->sa_family == AF_INET6) {
    const auto six = copy<sockaddr_in6>(address);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    return {text, ntohs(six.sin6_port)};
  }
  return {"unknown", 0};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(copy<sockaddr_in>(address).sin_addr.s_addr) >> 24) == 127;
  if (address->sa_family != AF_INET6) return false;
  const in6_addr six = copy<sockaddr_in6>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || reach_of(host) == Where::kHere;
}

bool is_remote(const std::string& host) {
  return reach_of(host) == Where::kElsewhere;
}

int family_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family;
}

std::string peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "unknown";
  return to_string(endpoint_of(reinterpret_cast<sockaddr*>(&address)));
}

bool stays_on_host(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0)
    return false;
  const auto host = [](const sockaddr_storage& address) {
    return endpoint_of(reinterpret_cast<const sockaddr*>(&address)).host;
  };
  return own.ss_family == peer.ss_family && own.ss_family != AF_UNIX && host(own) == host(peer);
}

Error needs_secret(const Endpoint& endpoint) {
  return Error(
      Code::kDenied,
      fmt::format("{} can be reached from other hosts, and without a cluster secret anybody "
                  "could join. Make one with `tandem master --init` and give it to every "
                  "node, or use 127.0.0.1",
                  to_string(endpoint)));
}

}  // namespace tandem::net
