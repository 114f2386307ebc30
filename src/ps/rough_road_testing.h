// For tests of parameter servers: a road between workers and a server on which bytes are held up
// for a while, and connections are cut, at random.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/rng.h"
#include "net/address.h"

namespace tandem::ps {

class RoughRoad {
 public:
  // Leads to `port` of this host. Of `seed` depends when what happens, as far as threads allow.
  RoughRoad(std::uint16_t port, std::uint64_t seed)
      : target_(port), seed_(seed), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    TANDEM_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                 ::listen(listener_.get(), 64) == 0 &&
                 ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    gate_ = std::jthread([this](const std::stop_token& end) { accept_all(end); });
  }
  ~RoughRoad() {
    gate_.request_stop();
    gate_.join();
    cars_.clear();
  }

  net::Endpoint endpoint() const { return {"127.0.0.1", port_}; }
  std::uint64_t cuts() const { return cuts_; }
  // From now on nothing is held up or cut.
  void smooth() { rough_ = false; }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  void accept_all(const std::stop_token& end) {
    while (!end.stop_requested()) {
      pollfd entry{listener_.get(), POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      Descriptor near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Descriptor far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in address = loopback(target_);
      if (!near.is_open() ||
          ::connect(far.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        continue;
      const int on = 1;
      for (const int fd : {near.get(), far.get()})
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::uint64_t number = ++connections_;
      cars_.emplace_back([this, number, near = std::move(near), far = std::move(far)](
                             const std::stop_token& stop) { carry(number, near, far, stop); });
    }
  }

  void carry(std::uint64_t number, const Descriptor& near, const Descriptor& far,
             const std::stop_token& end) {
    Rng rng({seed_, number});
    std::vector<char> bytes(std::size_t{64} << 10);
    while (!end.stop_requested()) {
      std::array<pollfd, 2> entries{pollfd{near.get(), POLLIN, 0}, pollfd{far.get(), POLLIN, 0}};
      if (::poll(entries.data(), 2, 20) <= 0) continue;
      for (const bool outward : {true, false}) {
        if (entries[outward ? 0 : 1].revents == 0) continue;
        const int from = outward ? near.get() : far.get(), to = outward ? far.get() : near.get();
        const ssize_t got = ::recv(from, bytes.data(), 1 + rng.below(bytes.size()), 0);
        if (got <= 0) return;
        if (rough_ && rng.below(4000) == 0) {
          ++cuts_;
          // Half of what came is still carried.
          (void)::send(to, bytes.data(), static_cast<std::size_t>(got) / 2, MSG_NOSIGNAL);
          return;
        }
        // Later bytes wait for earlier ones, as on any road.
        if (rough_ && rng.below(50) == 0) ::poll(nullptr, 0, static_cast<int>(1 + rng.below(8)));
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t some =
              ::send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
          if (some <= 0) return;
          sent += some;
        }
      }
    }
  }

  const std::uint16_t target_;
  const std::uint64_t seed_;
  const Descriptor listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> cuts_ = 0;
  std::atomic<bool> rough_ = true;
  // The gate's thread alone touches these until it has ended.
  std::uint64_t connections_ = 0;
  std::vector<std::jthread> cars_;
  std::jthread gate_;
};

}  // namespace tandem::ps
