#include "ps/server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "net/address.h"

namespace tandem::ps {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// After the last message: looking costs less than sleeping and being woken, which takes tens of
// microseconds on a virtual machine.
constexpr std::chrono::microseconds kBusy{200};
// Nobody rings when a full ring has room again.
constexpr milliseconds kFullRing{1};
// Newcomers wait for so long at most.
constexpr milliseconds kAccepting{5};
// Messages that may wait for a peer to read them: more than the answers to what a worker may ask at
// once, such as a state of 128 GB.
constexpr std::size_t kMostUnsent = 1 << 17;
// For last words to a peer that does not read.
constexpr milliseconds kLastWords{1000};

Result<Descriptor> listen_on(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string number = std::to_string(port);
  const int error =
      ::getaddrinfo(address.empty() ? nullptr : address.c_str(), number.c_str(), &hints, &found);
  if (error != 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("look up {}: {}", address, ::gai_strerror(error)));
  }
  int failure = 0;
  Descriptor socket;
  // "" means IPv6 with IPv4 in it where there is IPv6, which the system names last.
  std::vector<const addrinfo*> candidates;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
    candidates.insert(each->ai_family == AF_INET6 ? candidates.begin() : candidates.end(), each);
  for (const addrinfo* each : candidates) {
    if (socket.is_open()) break;
    Descriptor made(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const int off = 0;
    if (each->ai_family == AF_INET6)
      ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (made.is_open() && ::bind(made.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(made.get(), SOMAXCONN) == 0) {
      socket = std::move(made);
    } else {
      failure = errno;
    }
  }
  ::freeaddrinfo(found);
  if (socket.is_open()) return socket;
  return Error(Code::kInvalidArgument,
               fmt::format("listen on {}:{}: {}", address, port, std::strerror(failure)));
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return net::endpoint_of(reinterpret_cast<const sockaddr*>(&address)).port;
}

}  // namespace

// A connection: a stranger at first, then a worker's, at last one that is to end.
class Server::Peer final : public Receiver {
 public:
  Peer(PeerId id, net::SecureSocket socket, std::string address, Greeting greeting,
       Services& services)
      : id_(id),
        services_(services),
        greeting_(std::move(greeting)),
        connection_(std::move(socket), std::move(address)) {}

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  bool is_stranger() const { return greeting_.has_value(); }
  bool is_silent() { return is_stranger() && !connection_.socket().has_heard(); }
  Clock::time_point since() const { return since_; }
  bool is_silent_too_long(Clock::time_point now) const {
    return (is_stranger() && now - since_ > kGreetingTime) ||
           (ends_at_ && (now > *ends_at_ || !connection_.has_unsent()));
  }
  bool is_ending() const { return ends_at_.has_value(); }
  void end() {
    connection_.forget_memory();
    if (!ends_at_) ends_at_ = Clock::now() + kLastWords;
  }

  Result<bool> turn() try {
    if (is_stranger()) return greet();
    // Nothing more is taken from one that is to end.
    if (is_ending()) return connection_.flush();
    auto turned = connection_.turn(*this);
    if (turned.ok() && *turned) services_.settle(id_);
    return turned;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }

  Result<std::span<std::byte>> place(const Header& header) override try {
    return services_.place(id_, header);
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  Status message(const Header& header, std::span<const std::byte> payload) override try {
    if (connection_.unsent_messages() > kMostUnsent) {
      return Error(Code::kInvalidArgument,
                   fmt::format("refused more messages: it has not read {} answers", kMostUnsent));
    }
    return services_.message(id_, header, payload);
  } catch (const std::bad_alloc&) {
    return no_memory();
  }

 private:
  static Error no_memory() {
    return Error(Code::kOutOfSpace, "the server's memory is out; use more servers");
  }

  Result<bool> greet() {
    auto moved = greeting_->turn(connection_.socket());
    if (!moved.ok()) return std::move(moved).error().within("greet a stranger");
    if (greeting_->is_done()) greeting_.reset();
    return moved;
  }

  const PeerId id_;
  Services& services_;
  std::optional<Greeting> greeting_;  // Until it has proved itself.
  Connection connection_;
  const Clock::time_point since_ = Clock::now();
  std::optional<Clock::time_point> ends_at_;
};

Result<std::unique_ptr<Server>> Server::create(const ServerConfig& config) {
  TANDEM_ASSIGN(Descriptor listener, listen_on(config.address, config.port));
  const std::uint16_t port = port_of(listener.get());
  return std::unique_ptr<Server>(new Server(config, std::move(listener), port));
}

Server::Server(const ServerConfig& config, Descriptor listener, std::uint16_t port)
    : config_(config),
      secret_(secret_of(config.token)),
      listener_(std::move(listener)),
      port_(port),
      services_(*this, config.log, config.credit_bytes) {}

Server::~Server() = default;

void Server::turn(milliseconds at_most) {
  // However busy the others keep it.
  if (Clock::now() >= accepts_at_) {
    accepts_at_ = Clock::now() + kAccepting;
    accept_all();
  }
  if (serve_all()) {
    busy_until_ = Clock::now() + kBusy;
    return;
  }
  if (Clock::now() < busy_until_) {
    ::sched_yield();
    return;
  }
  sleep(at_most);
}

bool Server::serve_all() {
  bool moved = false;
  for (auto& [id, peer] : peers_) {
    auto turned = peer->turn();
    if (!turned.ok()) {
      end(id, turned.error());
    } else {
      moved |= *turned;
    }
  }
  remove_ended();
  return moved;
}

void Server::sleep(milliseconds at_most) {
  bool may_sleep = true;
  entries_.assign(1, {listener_.get(), POLLIN, 0});
  for (auto& [id, peer] : peers_) {
    Connection& connection = peer->connection();
    may_sleep = connection.doze() && may_sleep;
    if (connection.waits_for_ring()) at_most = std::min(at_most, kFullRing);
    const short events = connection.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    entries_.push_back({connection.fd(), events, 0});
  }
  // An interrupted or failed poll only means that everything is looked at now.
  if (may_sleep) ::poll(entries_.data(), entries_.size(), static_cast<int>(at_most.count()));
  for (auto& [id, peer] : peers_) peer->connection().wake();
  if ((entries_[0].revents & POLLIN) != 0) accept_all();
}

void Server::accept_all() {
  for (;;) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    const auto strangers = static_cast<std::size_t>(std::count_if(
        peers_.begin(), peers_.end(), [](const auto& each) { return each.second->is_stranger(); }));
    if (strangers >= kMostStrangers && !make_room()) {
      ++refused_;
      continue;
    }
    std::string address = net::peer_of(socket.get());
    auto greeting = Greeting::create(net::Role::kListens, secret_);
    auto secure = net::SecureSocket::create(std::move(socket), net::Role::kListens, config_.tls);
    if (!greeting.ok() || !secure.ok()) {
      ++refused_;
      continue;
    }
    const PeerId id = next_++;
    peers_[id] = std::make_unique<Peer>(id, std::move(secure).value(), std::move(address),
                                        std::move(greeting).value(), services_);
  }
}

// Drops the stranger that has had most time and used it least, as net::Listener does: the oldest
// that said nothing, or the oldest, unless even that one came just now. Whether it found one.
bool Server::make_room() {
  auto victim = std::find_if(peers_.begin(), peers_.end(),
                             [](const auto& each) { return each.second->is_silent(); });
  if (victim == peers_.end()) {
    victim = std::find_if(peers_.begin(), peers_.end(),
                          [](const auto& each) { return each.second->is_stranger(); });
    if (Clock::now() - victim->second->since() < kGreetingTime / 5) return false;
  }
  ++refused_;
  peers_.erase(victim);
  return true;
}

// A worker that sent what it must not is told why; who is gone is missed by the others.
void Server::end(PeerId id, const Error& why) {
  Peer& peer = *peers_.at(id);
  if (peer.is_ending()) return;
  const bool stranger = peer.is_stranger();
  if (stranger || why.code() != Code::kPeerLost) {
    // A stranger decides how often this comes.
    constexpr std::uint64_t kFirst = 20, kSome = 1000;
    if (++refused_ <= kFirst || refused_ % kSome == 0)
      config_.log(fmt::format("refused {}: {} (number {})", peer.connection().peer(), why.message(),
                              refused_));
  }
  try {
    services_.gone(id, why);
    if (!stranger) {
      peer.connection().send_text(
          {.kind = Kind::kFailed, .code = static_cast<std::uint16_t>(why.code())}, why.message());
    }
  } catch (const std::bad_alloc&) {
    // Without words: all see that the connections end.
    services_.forget();
    for (auto& [other, each] : peers_)
      if (!each->is_stranger()) each->end();
  }
  peer.end();
}

void Server::remove_ended() {
  const Clock::time_point now = Clock::now();
  std::erase_if(peers_, [&](const auto& each) { return each.second->is_silent_too_long(now); });
}

void Server::send(PeerId to, const Header& header, std::span<const std::byte> payload) {
  lend(to, header, payload, nullptr);
}

void Server::send_ahead(PeerId to, const Header& result, std::span<const std::byte> payload) {
  if (const auto peer = peers_.find(to); peer != peers_.end())
    peer->second->connection().send_ahead(result, payload);
}

void Server::lend(PeerId to, const Header& header, std::span<const std::byte> payload,
                  std::shared_ptr<const void> owner) {
  if (const auto peer = peers_.find(to); peer != peers_.end())
    peer->second->connection().send(header, payload, std::move(owner));
}

void Server::send_text(PeerId to, const Header& header, std::string payload) {
  if (const auto peer = peers_.find(to); peer != peers_.end())
    peer->second->connection().send_text(header, std::move(payload));
}

void Server::share(PeerId with, const SharedMemory& memory) {
  if (const auto peer = peers_.find(with); peer != peers_.end())
    peer->second->connection().share(memory);
}

std::uint64_t Server::unsent_results(PeerId to) const {
  const auto peer = peers_.find(to);
  return peer == peers_.end() ? 0 : peer->second->connection().unsent_results();
}

void Server::close(PeerId id) {
  if (const auto peer = peers_.find(id); peer != peers_.end()) peer->second->end();
}

}  // namespace tandem::ps
