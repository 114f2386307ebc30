// The part of Team that looks after a job's parameter servers.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/team.h"
#include "cluster/words.h"

namespace tandem::cluster {

TeamActions Team::server_ready(int server, TimePoint now) {
  if (const auto found = servers_.find(server); found != servers_.end())
    found->second = ServerStage::kServing;
  decide(now);
  return take();
}

TeamActions Team::server_ended(int server, const std::string& how, TimePoint now) {
  const bool was_one = servers_.erase(server) > 0;
  if (was_one && goal_ == Goal::kTrain && !somebody_finished_) lose_server(server, how, now);
  decide(now);
  return take();
}

TeamActions Team::resize_servers(int wanted, TimePoint now) {
  const int before = wanted_servers();
  if (wanted != before && generation_ > 0 && goal_ == Goal::kTrain)
    tell("resized", "master", fmt::format("from {} to {} servers", before, wanted));
  seats_.resize(static_cast<std::size_t>(wanted), kNobody);
  decide(now);
  return take();
}

// The members notice it by themselves and leave. Where its slices were nowhere else, what they have
// is of no more use: they go back together.
void Team::lose_server(int server, const std::string& how, TimePoint now) {
  tell("lost", server_name(server), how);
  fruitless_ = 0;
  echo_until_.reset();
  const bool was_placed =
      std::find(servers_placed_.begin(), servers_placed_.end(), server) != servers_placed_.end();
  if (!members_.empty() && was_placed) {
    broken_ = true;
    if (!lost_at_) lost_at_ = now;
  }
  if (!every_slice_is_held()) forget_state();
  const auto seat = std::find(seats_.begin(), seats_.end(), server);
  if (seat == seats_.end()) return;  // It was to go.
  *seat = kNobody;
  count_replacement(process_of_server(server), "workers and servers", now);
  if (goal_ == Goal::kFail) reason_ = fmt::format("it {}; {}", how, reason_);
}

// By those that have the state: slice i is held by the server in seat i and by those behind it.
bool Team::every_slice_is_held() const {
  const std::size_t seats = servers_proven_.size();
  const std::size_t copies = std::min(static_cast<std::size_t>(config_.replicas), seats);
  for (std::size_t slice = 0; slice < seats; ++slice) {
    bool held = false;
    for (std::size_t copy = 0; copy < copies; ++copy)
      held = held || servers_.contains(servers_proven_[(slice + copy) % seats]);
    if (!held) return false;
  }
  return seats > 0;
}

// What servers had is lost: so is what workers have.
void Team::forget_state() {
  void_generation_ = generation_;
  servers_proven_.clear();
  for (auto& [number, worker] : workers_) worker.has_state = false;
}

void Team::start_missing_servers() {
  for (int& seat : seats_) {
    if (seat != kNobody) continue;
    seat = next_server_++;
    servers_[seat] = ServerStage::kStarting;
    actions_.emplace_back(StartServer{seat});
  }
}

bool Team::has_all_servers() const {
  return std::all_of(seats_.begin(), seats_.end(), [&](int server) {
    const auto found = servers_.find(server);
    return found != servers_.end() && found->second == ServerStage::kServing;
  });
}

// Those without a seat that nobody needs any more.
void Team::release_servers() {
  const auto has = [](const std::vector<int>& some, int server) {
    return std::find(some.begin(), some.end(), server) != some.end();
  };
  std::erase_if(servers_, [&](const auto& each) {
    const int server = each.first;
    if (has(seats_, server) || has(servers_placed_, server) || has(servers_proven_, server))
      return false;
    actions_.emplace_back(EndServer{server});
    return true;
  });
}

// Those without a seat that have what the others may need.
std::vector<int> Team::former_servers() const {
  std::vector<int> former;
  for (const int server : servers_proven_) {
    const bool has_seat = std::find(seats_.begin(), seats_.end(), server) != seats_.end();
    if (!has_seat && servers_.contains(server)) former.push_back(server);
  }
  return former;
}

}  // namespace tandem::cluster
