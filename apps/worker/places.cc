#include "places.h"

#include <utility>

#include "collective/join.h"

namespace tandem::worker {

using std::chrono::milliseconds;

bool NodePlaces::has_waited() {
  using Clock = std::chrono::steady_clock;
  constexpr milliseconds kLastWait{5000};
  if (!stop_) return false;
  if (!asked_) asked_ = Clock::now();
  return Clock::now() - *asked_ >= kLastWait;
}

Result<train::Place> NodePlaces::next(train::Parting parting,
                                      const std::function<void()>& waiting) {
  constexpr milliseconds kLook{50};
  if (ready_) std::exchange(ready_, nullptr)();
  while (!control_.has_place()) {
    if (stop_ && (parting != train::Parting::kBroken || has_waited()))
      return Error(Code::kCancelled, "asked to stop while it waited for its place");
    TANDEM_TRY(control_.listen(kLook));
    waiting();
  }
  place_ = *control_.take_place();
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
    return (is_first && stop_) || has_waited() || has_next();
  };
  TANDEM_ASSIGN(collective::Group group, collective::join(join));
  train::ServerPlaces servers;
  servers.token = token_;
  servers.tls = tls_;
  servers.generation = place_.generation();
  for (const wire::ServerAddress& server : place_.servers())
    servers.endpoints.push_back({server.host(), static_cast<std::uint16_t>(server.port())});
  for (const wire::ServerAddress& server : place_.former_servers())
    servers.former.push_back({server.host(), static_cast<std::uint16_t>(server.port())});
  return train::Place{
      std::move(group), place_.resume(),    {place_.lane_ends().begin(), place_.lane_ends().end()},
      place_.owner(),   std::move(servers), place_.anew()};
}

bool NodePlaces::has_next() {
  // A node that is gone is noticed by whoever next waits for it.
  [[maybe_unused]] const Status status = control_.listen(milliseconds(0));
  return control_.has_place();
}

}  // namespace tandem::worker
