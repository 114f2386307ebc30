// Where a listener listens and a link connects to, and the system's addresses as text. Plain values
// and functions, for any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

struct sockaddr;

namespace tandem::net {

struct Endpoint {
  std::string host;  // A name or an address: "node-3", "10.0.0.3", "::1".
  std::uint16_t port = 0;
};

// "node-3:7070", "[::1]:7070".
std::string to_string(const Endpoint& endpoint);

Endpoint endpoint_of(const sockaddr* address);
bool is_loopback(const sockaddr* address);
// Of an address as text. Names are not looked up: one may mean either, but for "localhost".
bool is_loopback(const std::string& host);
bool is_remote(const std::string& host);

// Of a connected socket: AF_INET or AF_INET6, and its peer's address as text.
int family_of(int socket);
std::string peer_of(int socket);
// Whether its two ends have one address: then the bytes do not leave the host.
bool stays_on_host(int socket);

// kDenied, with what to do about it: an endpoint without a secret would let anybody in.
Error needs_secret(const Endpoint& endpoint);

}  // namespace tandem::net
