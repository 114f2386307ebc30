#include "control.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>

namespace tandem::worker {

Status Control::listen(std::chrono::milliseconds at_most) {
  pollfd entry{socket_, POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(at_most.count())) <= 0) return {};
  std::array<std::byte, 4096> bytes;
  const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got <= 0) return Error(Code::kCancelled, "the node that started this worker is gone");
  frames_.feed(std::span(bytes).first(static_cast<std::size_t>(got)));
  for (;;) {
    TANDEM_ASSIGN(std::optional<wire::WorkerMessage> message, frames_.next());
    if (!message) return {};
    if (message->has_place()) place_ = message->place();
    if (message->has_verdict()) verdict_ = message->verdict();
  }
}

}  // namespace tandem::worker
