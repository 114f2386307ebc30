#include "places.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "collective/join.h"

namespace tandem::worker {

using std::chrono::milliseconds;

Result<train::Place> NodePlaces::next(train::Parting parting,
                                      const std::function<void()>& waiting) {
  // What a worker may alone have is saved by its next group, so it waits for that even when it
  // shall end; not for long.
  constexpr milliseconds kLook{50}, kLastWait{5000};
  if (ready_) std::exchange(ready_, nullptr)();
  for (milliseconds waited{0}; !next_; waited += kLook) {
    if (!stop_) waited = milliseconds(0);
    if (stop_ && (parting != train::Parting::kBroken || waited >= kLastWait))
      return Error(Code::kCancelled, "asked to stop while it waited for its place");
    TANDEM_TRY(listen(kLook));
    waiting();
  }
  place_ = *std::exchange(next_, std::nullopt);
  collective::JoinOptions join;
  join.rank = place_.rank();
  join.size = place_.size();
  join.address = place_.store_host();
  join.port = static_cast<std::uint16_t>(place_.store_port());
  join.served = true;
  join.token = token_;
  join.engine = place_.engine();
  join.generation = place_.generation();
  join.patience = milliseconds(static_cast<std::int64_t>(place_.patience_s() * 1000));
  join.forming = milliseconds(static_cast<std::int64_t>(place_.forming_s() * 1000));
  const bool is_first = place_.generation() == 1;
  join.abandoned = [&, is_first] {
    waiting();
    return (is_first && stop_) || has_next();
  };
  TANDEM_ASSIGN(collective::Group group, collective::join(join));
  return train::Place{
      std::move(group), place_.resume(), {place_.lane_ends().begin(), place_.lane_ends().end()}};
}

bool NodePlaces::has_next() {
  // A node that is gone is noticed by whoever next waits for it.
  [[maybe_unused]] const Status status = listen(milliseconds(0));
  return next_.has_value();
}

Status NodePlaces::listen(milliseconds at_most) {
  pollfd entry{control_, POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(at_most.count())) <= 0) return {};
  std::array<std::byte, 4096> bytes;
  const ssize_t got = ::recv(control_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got <= 0) return Error(Code::kCancelled, "the node that started this worker is gone");
  frames_.feed(std::span(bytes).first(static_cast<std::size_t>(got)));
  return take_messages();
}

Status NodePlaces::take_messages() {
  for (;;) {
    TANDEM_ASSIGN(std::optional<wire::WorkerMessage> message, frames_.next());
    if (!message) return {};
    if (message->has_place()) next_ = message->place();
  }
}

}  // namespace tandem::worker
