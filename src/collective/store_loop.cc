#include "collective/store_loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tandem::collective {
namespace {

// How long accepting pauses when the process has no descriptor left.
constexpr std::chrono::milliseconds kAcceptPause{100};

// No early exit: the time must not tell how much of a token is right.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  std::byte difference{};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{};
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

StoreServer::Loop::Loop(Descriptor listener, Descriptor stopper, std::string_view token)
    : listener_(std::move(listener)),
      stopper_(std::move(stopper)),
      expected_(store::greeting_for(token)) {}

void StoreServer::Loop::run() {
  while (poll_once()) {
  }
}

void StoreServer::Loop::stop() {
  const std::uint64_t one = 1;
  TANDEM_CHECK(::write(stopper_.get(), &one, sizeof one) == sizeof one);
}

bool StoreServer::Loop::poll_once() {
  const auto now = Clock::now();
  const bool accepts = connections_.size() < store::kMaxConnections && now >= accept_after_;
  Clock::time_point wake = now + std::chrono::hours(1);
  if (now < accept_after_) wake = accept_after_;
  entries_.assign({{stopper_.get(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}});
  for (const Connection& connection : connections_) {
    // Whoever does not read its answers is not read either, so its memory is bounded.
    const short events = connection.output.empty() ? POLLIN : POLLOUT;
    entries_.push_back({connection.socket.get(), events, 0});
    if (!connection.welcome) wake = std::min(wake, connection.greeting_deadline);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - now);
  const int ready = ::poll(entries_.data(), entries_.size(), static_cast<int>(left.count()));
  if (ready < 0 && errno != EINTR) return false;
  if (entries_[0].revents != 0) return false;
  if (ready >= 0) {
    for (std::size_t i = 0; i < connections_.size(); ++i)
      if (entries_[i + 2].revents != 0) serve(connections_[i]);
  }
  const auto late = Clock::now();
  std::erase_if(connections_, [&](const Connection& connection) {
    return !connection.socket.is_open() ||
           (!connection.welcome && late >= connection.greeting_deadline);
  });
  if (ready >= 0 && entries_[1].revents != 0) accept();
  return true;
}

void StoreServer::Loop::make_room() {
  const auto is_stranger = [](const Connection& connection) { return !connection.welcome; };
  const auto count = std::ranges::count_if(connections_, is_stranger);
  if (static_cast<std::size_t>(count) < store::kMaxStrangers) return;
  // Its greeting may be here, and only not read yet.
  auto victim = std::ranges::find_if(connections_, [&](const Connection& connection) {
    std::byte first;
    return is_stranger(connection) && connection.input.empty() &&
           ::recv(connection.socket.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
  });
  if (victim == connections_.end()) victim = std::ranges::find_if(connections_, is_stranger);
  connections_.erase(victim);
}

void StoreServer::Loop::accept() {
  Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.is_open()) {
    // Out of descriptors or memory: the listener would stay readable and the loop spin.
    if (!would_block() && errno != ECONNABORTED) accept_after_ = Clock::now() + kAcceptPause;
    return;
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  make_room();
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(socket);
  connection.greeting_deadline = Clock::now() + store::kGreetingTime;
}

void StoreServer::Loop::serve(Connection& connection) {
  if (!connection.output.empty()) {
    flush(connection);
  } else {
    read(connection);
  }
  // What is already here of the next request may be whole.
  while (connection.socket.is_open() && connection.output.empty() && step(connection)) {
  }
}

void StoreServer::Loop::read(Connection& connection) {
  std::byte buffer[16 * 1024];
  const ssize_t got = ::recv(connection.socket.get(), buffer, sizeof buffer, 0);
  if (got > 0) {
    connection.input.insert(connection.input.end(), buffer, buffer + got);
  } else if (got == 0 || !would_block()) {
    connection.socket.close();
  }
}

bool StoreServer::Loop::step(Connection& connection) {
  if (!connection.welcome) return greet(connection);
  const std::span<const std::byte> input = connection.input;
  if (input.size() < store::kHeaderBytes) return false;
  const store::Header header = store::to_header(input.data());
  const auto operation = static_cast<store::Operation>(header.kind);
  const bool is_claim = operation == store::Operation::kClaim;
  const bool is_set = operation == store::Operation::kSet || is_claim;
  if ((!is_set && operation != store::Operation::kGet) || header.key_bytes == 0 ||
      header.key_bytes > store::kMaxKeyBytes ||
      header.value_bytes > (is_set ? store::kMaxValueBytes : 0)) {
    connection.socket.close();
    return false;
  }
  const std::size_t whole = store::kHeaderBytes + header.key_bytes + header.value_bytes;
  if (input.size() < whole) return false;
  std::string key(reinterpret_cast<const char*>(input.data()) + store::kHeaderBytes,
                  header.key_bytes);
  const auto value = input.subspan(store::kHeaderBytes + header.key_bytes, header.value_bytes);
  connection.sequence = header.sequence;
  connection.waits_for.reset();
  if (const auto taken = keys_.find(key); is_claim && taken != keys_.end()) {
    reply(connection, store::Reply::kTaken, taken->second);
  } else if (is_set) {
    set(connection, key, value);
  } else {
    get(connection, std::move(key));
  }
  connection.input.erase(connection.input.begin(),
                         connection.input.begin() + static_cast<std::ptrdiff_t>(whole));
  return connection.socket.is_open();
}

bool StoreServer::Loop::greet(Connection& connection) {
  const std::span<const std::byte> input = connection.input;
  const std::span<const std::byte> expected = expected_;
  const std::size_t magic = std::min(input.size(), store::kMagic.size());
  if (!std::ranges::equal(input.first(magic), expected.first(magic))) {
    connection.socket.close();
    return false;
  }
  if (input.size() < store::kGreetingBytes) return false;
  auto answer = store::Greeting::kWelcome;
  if (input[7] != expected[7]) {
    answer = store::Greeting::kOtherVersion;
  } else if (!equal_in_constant_time(input.subspan(8, store::kTokenHashBytes),
                                     expected.subspan(8))) {
    answer = store::Greeting::kWrongToken;
  }
  connection.welcome = answer == store::Greeting::kWelcome;
  connection.ends = !connection.welcome;
  connection.input.erase(connection.input.begin(),
                         connection.input.begin() + store::kGreetingBytes);
  connection.output.push_back(static_cast<std::byte>(answer));
  flush(connection);
  return connection.socket.is_open();
}

void StoreServer::Loop::set(Connection& connection, const std::string& key,
                            std::span<const std::byte> value) {
  if (keys_.size() >= store::kMaxKeys && !keys_.contains(key)) {
    reply(connection, store::Reply::kFull, {});
    return;
  }
  std::vector<std::byte>& kept = keys_[key];
  kept.assign(value.begin(), value.end());
  reply(connection, store::Reply::kDone, {});
  for (Connection& other : connections_) {
    if (other.waits_for != key) continue;
    other.waits_for.reset();
    reply(other, store::Reply::kDone, kept);
  }
}

void StoreServer::Loop::get(Connection& connection, std::string key) {
  if (const auto found = keys_.find(key); found != keys_.end()) {
    reply(connection, store::Reply::kDone, found->second);
  } else {
    connection.waits_for = std::move(key);
  }
}

void StoreServer::Loop::reply(Connection& connection, store::Reply kind,
                              std::span<const std::byte> value) {
  const store::HeaderBytes header =
      store::to_bytes({static_cast<std::uint8_t>(kind), 0, static_cast<std::uint32_t>(value.size()),
                       connection.sequence});
  connection.output.assign(header.begin(), header.end());
  connection.output.insert(connection.output.end(), value.begin(), value.end());
  flush(connection);
}

void StoreServer::Loop::flush(Connection& connection) {
  const std::span<const std::byte> rest = std::span(connection.output).subspan(connection.sent);
  const ssize_t sent =
      ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && !would_block()) connection.socket.close();
  if (sent > 0) connection.sent += static_cast<std::size_t>(sent);
  if (connection.sent < connection.output.size()) return;
  connection.output.clear();
  connection.sent = 0;
  if (connection.ends) connection.socket.close();
}

}  // namespace tandem::collective
