// For tests of net/: somebody between two ends of a connection, who records, changes and repeats
// what goes through. Belongs to the thread of its Loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/testing.h"

namespace tandem::net {

// A listening socket on a free port.
class RawListener {
 public:
  explicit RawListener(int backlog = 64)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_.get(), backlog), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }

  // The next connection, when there is one.
  Descriptor take() {
    return Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }
  Descriptor wait(Loop& loop) {
    Descriptor peer;
    EXPECT_TRUE(wait_until(loop, [&] { return (peer = take()).is_open(); }));
    return peer;
  }

  std::uint16_t port() const { return port_; }
  int fd() const { return socket_.get(); }

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;
};

// Forwards connections to `target`.
class Proxy {
 public:
  using Filter = std::function<std::string(std::string bytes)>;

  Proxy(Loop& loop, std::uint16_t target) : loop_(loop), target_(target) {
    watch_ = std::move(loop.watch(listener_.fd(), [this] { accept(); })).value();
  }

  std::uint16_t port() const { return listener_.port(); }
  // What clients and servers sent, as it came.
  const std::string& from_client() const { return from_client_; }
  const std::string& from_server() const { return from_server_; }
  // Changes what goes to the server from now on.
  void filter(Filter filter) { filter_ = std::move(filter); }
  // Says more to the newest connection's server than its client did.
  void inject(std::string_view bytes) { raw_send(pairs_.back()->server, bytes); }

 private:
  struct Pair {
    Descriptor client;
    Descriptor server;
    // Before the descriptors go, so they are last.
    Watch client_watch;
    Watch server_watch;
  };

  void accept() {
    auto pair = std::make_unique<Pair>();
    pair->client = listener_.take();
    if (!pair->client.is_open()) return;
    pair->server = raw_connect(target_);
    Pair& both = *pair;
    pairs_.push_back(std::move(pair));
    both.client_watch = std::move(loop_.watch(both.client.get(), [this, &both] {
                          const std::string bytes = receive(both, both.client);
                          from_client_ += bytes;
                          const std::string changed = filter_ ? filter_(bytes) : bytes;
                          if (!changed.empty()) raw_send(both.server, changed);
                        })).value();
    both.server_watch = std::move(loop_.watch(both.server.get(), [this, &both] {
                          const std::string bytes = receive(both, both.server);
                          from_server_ += bytes;
                          if (!bytes.empty()) raw_send(both.client, bytes);
                        })).value();
  }

  std::string receive(Pair& pair, const Descriptor& from) {
    std::string bytes(std::size_t{64} << 10, '\0');
    const ssize_t got = ::recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
      pair.client_watch.cancel();
      pair.server_watch.cancel();
      ::shutdown(pair.client.get(), SHUT_RDWR);
      ::shutdown(pair.server.get(), SHUT_RDWR);
    }
    return bytes;
  }

  Loop& loop_;
  const std::uint16_t target_;
  RawListener listener_;
  Watch watch_;
  Filter filter_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::string from_client_;
  std::string from_server_;
};

}  // namespace tandem::net
