#include "web/connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace tandem::web {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";

// Whether one of `events` came before the deadline.
bool wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

std::string address_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return "";
  const void* number =
      address.ss_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  const char* written = ::inet_ntop(address.ss_family, number, text.data(), text.size());
  return written == nullptr ? "" : written;
}

Reply too_slow() {
  return error_reply({.status = 408,
                      .code = "timeout",
                      .message = "the request did not arrive in time",
                      .hint = "send it again, without pauses"});
}

}  // namespace

Connection::Connection(Descriptor socket, Timeouts timeouts)
    : socket_(std::move(socket)), timeouts_(timeouts), peer_address_(address_of(socket_.get())) {
  // Head and body go out in two writes; the second must not wait for an acknowledgement.
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Connection::Got Connection::read_more(Clock::time_point deadline) {
  if (!wait_for(socket_.get(), POLLIN, deadline)) return Got::kTimeout;
  std::array<char, 8192> buffer;
  const ssize_t bytes = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (bytes > 0) input_.append(buffer.data(), static_cast<std::size_t>(bytes));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Got::kBytes;
  return bytes > 0 ? Got::kBytes : Got::kEnd;
}

std::variant<Received, Reply, Ended> Connection::receive() {
  if (input_.empty() && read_more(Clock::now() + timeouts_.idle) != Got::kBytes) return Ended{};
  const Clock::time_point deadline = Clock::now() + timeouts_.read;

  std::size_t end = 0;
  std::size_t searched = 0;
  while ((end = input_.find(kHeadEnd, searched)) == std::string::npos) {
    if (input_.size() > kMostHeadBytes) return head_too_large();
    searched = input_.size() < kHeadEnd.size() ? 0 : input_.size() - kHeadEnd.size() + 1;
    const Got got = read_more(deadline);
    if (got == Got::kTimeout) return too_slow();
    if (got == Got::kEnd) return Ended{};
  }
  end += kHeadEnd.size();
  if (end > kMostHeadBytes) return head_too_large();

  std::variant<Head, Reply> checked = check_head(std::string_view(input_).substr(0, end));
  if (Reply* refusal = std::get_if<Reply>(&checked)) return std::move(*refusal);
  Received received{.head = std::move(std::get<Head>(checked))};
  input_.erase(0, end);

  const std::size_t body_bytes = received.head.body_bytes;
  if (received.head.expectation == Expectation::kContinue && input_.size() < body_bytes) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    if (write(kContinue.data(), kContinue.size()) < 0) return Ended{};
  }
  while (input_.size() < body_bytes) {
    const Got got = read_more(deadline);
    if (got == Got::kTimeout) return too_slow();
    if (got == Got::kEnd) return Ended{};
  }
  received.body = input_.substr(0, body_bytes);
  input_.erase(0, body_bytes);
  return received;
}

ssize_t Connection::write(const char* data, std::size_t bytes) {
  for (;;) {
    const ssize_t sent = ::send(socket_.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno != EAGAIN && errno != EINTR) return -1;
    if (!wait_for(socket_.get(), POLLOUT, Clock::now() + timeouts_.write)) return -1;
  }
}

void Connection::drain() {
  constexpr std::size_t kMostDrained = 4 * kMostBodyBytes;
  ::shutdown(socket_.get(), SHUT_WR);
  const Clock::time_point deadline =
      Clock::now() + std::min(timeouts_.read, decltype(timeouts_.read)(1000));
  for (std::size_t drained = 0; drained < kMostDrained; drained += input_.size()) {
    input_.clear();
    if (read_more(deadline) != Got::kBytes) return;
  }
}

bool Connection::peer_is_there() const {
  char byte = 0;
  const ssize_t bytes = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace tandem::web
