#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "collective/store.h"
#include "collective/store_protocol.h"

namespace tandem::collective {
namespace {

using std::chrono::milliseconds;

// So often a refused connection is tried again.
constexpr milliseconds kRetry{20};

// Rounded up, so that a poll does not end early and turn into a spin.
int left_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

// True when `events` came before the deadline.
bool wait_for(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, left_ms(deadline));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// As above; false also when `abandoned`, if there is one, says true meanwhile.
bool wait_for(int fd, short events, Deadline deadline, const Abandoned& abandoned) {
  if (!abandoned) return wait_for(fd, events, deadline);
  for (;;) {
    const Deadline until = std::min(deadline, deadline_after(kAskAbandoned));
    if (wait_for(fd, events, until)) return true;
    if (until == deadline || abandoned()) return false;
  }
}

// A connected socket, or the errno of the failure.
Result<Descriptor> try_connect(const addrinfo& address, Deadline deadline,
                               const Abandoned& abandoned, int& error) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return system_error("cannot make a socket", error = errno);
  error = 0;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (wait_for(socket.get(), POLLOUT, deadline, abandoned))
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) return system_error("connect", error);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace

Error group_given_up() {
  return Error(Code::kPeerLost, "the group was given up before all were there");
}

StoreClient::StoreClient(Descriptor socket, std::string where)
    : socket_(std::move(socket)), where_(std::move(where)) {}

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const std::string& host,
                                                          std::uint16_t port,
                                                          std::string_view token, Deadline deadline,
                                                          const Abandoned& abandoned) {
  const std::string where = fmt::format("the store at {}:{}", host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failure =
          ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    return Error(Code::kNotFound, fmt::format("{}: cannot find the host: {}; check its name", where,
                                              ::gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  for (;;) {
    int error = 0;
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
      Result<Descriptor> socket = try_connect(*address, deadline, abandoned, error);
      if (!socket.ok()) continue;
      std::unique_ptr<StoreClient> client(new StoreClient(std::move(*socket), where));
      TANDEM_TRY(client->greet(token, deadline));
      return client;
    }
    if (abandoned && abandoned()) return group_given_up();
    if (std::chrono::steady_clock::now() + kRetry >= deadline) {
      return Error(Code::kTimeout,
                   fmt::format("{} cannot be reached: {}; is it running, and does a firewall let "
                               "this machine in?",
                               where, std::system_category().message(error)));
    }
    std::this_thread::sleep_for(kRetry);
  }
}

Status StoreClient::greet(std::string_view token, Deadline deadline) {
  const store::GreetingBytes greeting = store::greeting_for(token);
  TANDEM_TRY(send(greeting, "greeting", deadline));
  TANDEM_TRY(fill(1, "greeting", deadline));
  const auto answer = static_cast<store::Greeting>(input_.front());
  input_.clear();
  switch (answer) {
    case store::Greeting::kWelcome:
      return {};
    case store::Greeting::kWrongToken:
      return Error(Code::kDenied,
                   where_ +
                       " refused this worker: it has another job, or another TANDEM_TOKEN, than "
                       "rank 0; start all ranks with the same");
    case store::Greeting::kOtherVersion:
      break;
  }
  return Error(Code::kVersionMismatch,
               fmt::format("{} does not speak version {} of the store's protocol; run the same "
                           "build of tandem on every machine",
                           where_, store::kVersion));
}

Status StoreClient::send(std::span<const std::byte> bytes, std::string_view doing,
                         Deadline deadline) {
  const std::size_t all = bytes.size();
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (wait_for(socket_.get(), POLLOUT, deadline)) continue;
      // Half a request cannot be taken back.
      if (bytes.size() != all) socket_.close();
      return Error(Code::kTimeout, fmt::format("{}: {} does not read; it is late, not known to be "
                                               "dead (stopped? network cut?)",
                                               doing, where_));
    } else if (errno != EINTR) {
      return Error(Code::kPeerLost, fmt::format("{}: {} is gone: {}", doing, where_,
                                                std::system_category().message(errno)));
    }
  }
  return {};
}

Status StoreClient::fill(std::size_t bytes, std::string_view doing, Deadline deadline) {
  while (input_.size() < bytes) {
    const std::size_t have = input_.size();
    input_.resize(bytes);
    const ssize_t got = ::recv(socket_.get(), &input_[have], bytes - have, 0);
    const int error = errno;
    input_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) continue;
    if (got < 0 && error == EINTR) continue;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
      if (wait_for(socket_.get(), POLLIN, deadline)) continue;
      return Error(Code::kTimeout, fmt::format("{}: no answer from {} in time", doing, where_));
    }
    return Error(Code::kPeerLost,
                 fmt::format("{}: {} {}; did the process that runs it end?", doing, where_,
                             got == 0 ? "closed the connection"
                                      : "is gone: " + std::system_category().message(error)));
  }
  return {};
}

Result<StoreClient::Answer> StoreClient::call(std::uint8_t operation, std::string_view key,
                                              std::span<const std::byte> value,
                                              std::string_view doing, Deadline deadline) {
  if (key.empty() || key.size() > store::kMaxKeyBytes || value.size() > store::kMaxValueBytes) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("{}: a key has 1 to {} bytes and a value at most {}; these have {} "
                    "and {}",
                    doing, store::kMaxKeyBytes, store::kMaxValueBytes, key.size(), value.size()));
  }
  const std::uint32_t sequence = ++sequence_;
  const store::HeaderBytes header =
      store::to_bytes({operation, static_cast<std::uint16_t>(key.size()),
                       static_cast<std::uint32_t>(value.size()), sequence});
  std::vector<std::byte> request(header.begin(), header.end());
  const auto key_bytes = std::as_bytes(std::span(key));
  request.insert(request.end(), key_bytes.begin(), key_bytes.end());
  request.insert(request.end(), value.begin(), value.end());
  TANDEM_TRY(send(request, doing, deadline));
  for (;;) {
    TANDEM_TRY(fill(store::kHeaderBytes, doing, deadline));
    const store::Header reply = store::to_header(input_.data());
    if (reply.value_bytes > store::kMaxValueBytes)
      return Error(Code::kCorrupt, fmt::format("{}: {} sent garbage", doing, where_));
    TANDEM_TRY(fill(store::kHeaderBytes + reply.value_bytes, doing, deadline));
    std::vector<std::byte> answer(input_.begin() + store::kHeaderBytes, input_.end());
    input_.clear();
    if (reply.sequence != sequence) continue;
    const auto kind = static_cast<store::Reply>(reply.kind);
    if (kind == store::Reply::kDone || kind == store::Reply::kTaken)
      return Answer{kind == store::Reply::kTaken, std::move(answer)};
    return Error(Code::kOutOfSpace, fmt::format("{}: {} is full: it holds at most {} keys", doing,
                                                where_, store::kMaxKeys));
  }
}

Status StoreClient::set(std::string_view key, std::span<const std::byte> value, Deadline deadline) {
  const auto operation = static_cast<std::uint8_t>(store::Operation::kSet);
  const auto done = call(operation, key, value, fmt::format("set `{}`", key), deadline);
  return done.ok() ? Status() : Status(done.error());
}

Result<std::vector<std::byte>> StoreClient::get(std::string_view key, Deadline deadline) {
  const auto operation = static_cast<std::uint8_t>(store::Operation::kGet);
  TANDEM_ASSIGN(Answer answer,
                call(operation, key, {}, fmt::format("wait for key `{}`", key), deadline));
  return std::move(answer.value);
}

Result<std::vector<std::byte>> StoreClient::get(std::string_view key, Deadline deadline,
                                                const Abandoned& abandoned) {
  if (!abandoned) return get(key, deadline);
  for (;;) {
    const Deadline until = std::min(deadline, deadline_after(kAskAbandoned));
    auto value = get(key, until);
    if (value.ok() || value.error().code() != Code::kTimeout || until == deadline) return value;
    if (abandoned()) return group_given_up();
  }
}

Result<std::optional<std::vector<std::byte>>> StoreClient::claim(std::string_view key,
                                                                 std::span<const std::byte> value,
                                                                 Deadline deadline) {
  const auto operation = static_cast<std::uint8_t>(store::Operation::kClaim);
  TANDEM_ASSIGN(Answer answer,
                call(operation, key, value, fmt::format("claim `{}`", key), deadline));
  if (!answer.taken) return std::optional<std::vector<std::byte>>();
  return std::optional(std::move(answer.value));
}

Result<std::string> StoreClient::address(int (*name)(int, sockaddr*, socklen_t*)) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST];
  if (name(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return system_error(where_ + ": cannot tell the address", errno);
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return Error(Code::kInternal, where_ + ": cannot print the address");
  return std::string(text);
}

Result<std::string> StoreClient::local_address() const {
  return address(::getsockname);
}

Result<std::string> StoreClient::remote_address() const {
  return address(::getpeername);
}

}  // namespace tandem::collective
