// For tests of net/: both ends of a connection on one loop, with what happened to them; and raw
// sockets that do by hand, and wrongly if need be, what a peer does. All of one thread.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "net/crypto.h"
#include "net/frame.h"
#include "net/handshake.h"
#include "net/hello.h"
#include "net/link.h"
#include "net/listener.h"
#include "net/loop.h"

namespace tandem::net {

using namespace std::chrono_literals;

inline std::unique_ptr<Loop> make_loop() {
  return std::move(Loop::create()).value();
}

// Runs the loop until the condition holds; whether it did in time.
template <typename Condition>
bool wait_until(Loop& loop, Condition condition, Loop::Clock::duration patience = 10s) {
  const auto deadline = Loop::Clock::now() + patience;
  while (!condition()) {
    if (Loop::Clock::now() > deadline) return false;
    loop.poll_once(5ms);
  }
  return true;
}

inline Security with_secret(char fill) {
  Security security;
  security.secret.emplace().bytes.fill(fill);
  return security;
}

struct Message {
  std::uint16_t kind;
  std::string bytes;
  friend bool operator==(const Message&, const Message&) = default;
};

// A listener that keeps its channels and whatever came on them.
struct Server {
  struct Peer {
    std::unique_ptr<Channel> channel;
    std::vector<Message> messages;
    std::vector<Error> closed;
    int drained = 0;
  };

  Server(Loop& on, const Security& security, const Limits& limits = {}, std::uint16_t port = 0) {
    auto made = Listener::create(
        on, {"127.0.0.1", port}, security, limits,
        {.on_channel = [this](std::unique_ptr<Channel> channel) { take(std::move(channel)); },
         .on_refused = [this](const std::string&, const Error& why) { refused.push_back(why); }});
    EXPECT_TRUE(made.ok()) << made.error().message();
    if (made.ok()) listener = std::move(made).value();
  }

  void take(std::unique_ptr<Channel> channel) {
    auto& peer = *peers.emplace_back(std::make_unique<Peer>());
    peer.channel = std::move(channel);
    peer.channel->start({.on_message =
                             [&peer](std::uint16_t kind, std::string bytes) {
                               peer.messages.push_back({kind, std::move(bytes)});
                             },
                         .on_closed = [&peer](Error why) { peer.closed.push_back(std::move(why)); },
                         .on_drained = [&peer] { ++peer.drained; }});
  }

  std::uint16_t port() const { return listener->port(); }

  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<Error> refused;
  std::unique_ptr<Listener> listener;
};

// A link, and whatever happened to it.
struct Client {
  Client(Loop& loop, std::uint16_t port, const Security& security, const Limits& limits = {},
         const std::string& host = "127.0.0.1") {
    auto made = Link::create(loop, {host, port}, security, limits,
                             {.on_up = [this](Channel&) { ++ups; },
                              .on_message =
                                  [this](std::uint16_t kind, std::string bytes) {
                                    messages.push_back({kind, std::move(bytes)});
                                  },
                              .on_drained = nullptr,
                              .on_down = [this](const Error& why) { downs.push_back(why); }});
    EXPECT_TRUE(made.ok()) << made.error().message();
    if (made.ok()) link = std::move(made).value();
  }

  Channel& channel() { return *link->channel(); }

  int ups = 0;
  std::vector<Message> messages;
  std::vector<Error> downs;
  std::unique_ptr<Link> link;
};

inline Descriptor raw_connect(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

inline void raw_send(const Descriptor& socket, std::string_view bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// So many bytes, or fewer when the peer closed; the loop runs meanwhile.
inline std::string raw_receive(Loop& loop, const Descriptor& socket, std::size_t size) {
  std::string bytes;
  const bool ended = wait_until(loop, [&] {
    std::array<char, 65536> buffer;
    for (;;) {
      const std::size_t most = std::min(buffer.size(), size - bytes.size());
      const ssize_t got = ::recv(socket.get(), buffer.data(), most, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) return false;
      if (got > 0) bytes.append(buffer.data(), static_cast<std::size_t>(got));
      if (got <= 0 || bytes.size() == size) return true;
    }
  });
  EXPECT_TRUE(ended) << "neither bytes nor an end came";
  return bytes;
}

inline std::string raw_hello(char nonce, std::uint16_t version = kVersion,
                             Role role = Role::kConnects) {
  Hello hello{version, role, {}};
  hello.nonce.fill(nonce);
  const HelloBytes bytes = encode(hello);
  return {bytes.data(), bytes.size()};
}

// The handshake of who connects, written from the documentation and not from handshake.cc.
inline Keys raw_handshake(Loop& loop, const Descriptor& socket, const Security& security) {
  const std::string ours = raw_hello('n');
  raw_send(socket, ours);
  const std::string theirs = raw_receive(loop, socket, kHelloBytes);
  EXPECT_TRUE(parse_hello(theirs, Role::kListens).ok());
  const std::string nonces = ours.substr(8) + theirs.substr(8);
  const auto key = [&](std::string_view purpose) {
    return derive_key(security.secret->view(), nonces, purpose);
  };
  const HelloBytes proof =
      encode(Answer{Reason::kNone, Mac(key("tandem proof connects")).of(ours, theirs)});
  raw_send(socket, {proof.data(), proof.size()});
  const auto answer = parse_answer(raw_receive(loop, socket, kHelloBytes));
  EXPECT_TRUE(answer.ok() && answer->proof == Mac(key("tandem proof listens")).of(ours, theirs));
  return {key("tandem frames connects"), key("tandem frames listens")};
}

inline std::string raw_frame(const Key& key, std::uint16_t kind, std::string payload,
                             std::uint64_t counter) {
  Frame frame = make_frame(kind, std::move(payload), counter);
  const Digest code = Mac(key).of(frame.tagged_header(), frame.payload);
  std::memcpy(frame.header.data() + kTaggedHeaderBytes, code.data(), kTagBytes);
  return std::string(frame.header.data(), frame.header.size()) + frame.payload;
}

}  // namespace tandem::net
