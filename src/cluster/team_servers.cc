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

// The members notice it by themselves and leave. Its slice was nowhere else, so what they have is
// of no more use: they go back together.
void Team::lose_server(int server, const std::string& how, TimePoint now) {
  tell("lost", server_name(server), how);
  fruitless_ = 0;
  echo_until_.reset();
  if (!members_.empty()) {
    broken_ = true;
    if (!lost_at_) lost_at_ = now;
  }
  void_generation_ = generation_;
  for (auto& [number, worker] : workers_) worker.has_state = false;
  count_replacement(process_of_server(server), "workers and servers", now);
  if (goal_ == Goal::kFail) reason_ = fmt::format("it {}; {}", how, reason_);
}

void Team::start_missing_servers() {
  for (int missing = config_.servers - static_cast<int>(servers_.size()); missing > 0; --missing) {
    servers_[next_server_] = ServerStage::kStarting;
    actions_.emplace_back(StartServer{next_server_++});
  }
}

bool Team::has_all_servers() const {
  return static_cast<int>(servers_.size()) == config_.servers &&
         std::all_of(servers_.begin(), servers_.end(),
                     [](const auto& each) { return each.second == ServerStage::kServing; });
}

}  // namespace tandem::cluster
