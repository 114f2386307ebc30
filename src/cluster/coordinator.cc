#include "cluster/coordinator.h"

#include <algorithm>
#include <utility>

namespace tandem::cluster {

JobActions Coordinator::give() {
  return std::exchange(actions_, {});
}

void Coordinator::add(JobId job, TeamAction action, NodeId node) {
  JobAction& added = actions_.emplace_back();
  added.job = job;
  added.action = std::move(action);
  added.node = node;
}

// What a team wants, with where its workers are. Starts wait for a slot.
void Coordinator::take(JobId job, TeamActions actions) {
  Entry& entry = jobs_.at(job);
  for (TeamAction& action : actions) {
    if (const auto* start = std::get_if<StartWorker>(&action)) {
      entry.unplaced.push_back(start->worker);
      continue;
    }
    NodeId node = 0;
    if (const auto* place = std::get_if<PlaceWorker>(&action)) {
      node = entry.where.at(place->worker);
    } else if (const auto* end = std::get_if<EndWorker>(&action)) {
      const auto where = entry.where.find(end->worker);
      if (where == entry.where.end()) continue;  // It has not started: settle() sees to it.
      node = where->second;
    }
    add(job, std::move(action), node);
  }
}

template <typename Event>
JobActions Coordinator::with_team(JobId job, TimePoint now, Event event) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.team) return {};
  take(job, event(*found->second.team));
  settle(now);
  return give();
}

JobActions Coordinator::node_up(NodeId node, int slots, TimePoint now) {
  nodes_[node] = slots;
  settle(now);
  return give();
}

JobActions Coordinator::node_down(NodeId node, const std::string& why, TimePoint now) {
  nodes_.erase(node);
  // First all shrink, so that none replaces what it cannot have.
  allot(now);
  std::vector<JobId> ids;
  for (const auto& [id, entry] : jobs_) ids.push_back(id);
  for (const JobId id : ids) {
    std::vector<int> gone;
    for (const auto& [worker, where] : jobs_.at(id).where) {
      if (where == node) gone.push_back(worker);
    }
    for (const int worker : gone) {
      jobs_.at(id).where.erase(worker);
      take(id, jobs_.at(id).team->ended(worker, {Ending::Kind::kLost, why}, now));
    }
  }
  settle(now);
  return give();
}

JobActions Coordinator::submit(JobId job, const JobPlan& plan, TimePoint now) {
  Entry entry;
  entry.plan = plan;
  entry.asked = plan.team.wanted;
  jobs_.emplace(job, std::move(entry));
  settle(now);
  return give();
}

JobActions Coordinator::cancel(JobId job, TimePoint now) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  if (!found->second.team) {
    jobs_.erase(found);
    EndJob end;
    end.how = EndJob::How::kCancelled;
    add(job, std::move(end), 0);
    return give();
  }
  return with_team(job, now, [&](Team& team) { return team.cancel(now); });
}

JobActions Coordinator::resize(JobId job, int wanted, TimePoint now) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  found->second.asked = wanted;
  // Asked for by name: the job shall have so many and no more.
  found->second.plan.most = wanted;
  settle(now);
  return give();
}

JobActions Coordinator::ready(JobId job, int worker, TimePoint now) {
  return with_team(job, now, [&](Team& team) { return team.ready(worker, now); });
}

JobActions Coordinator::placed(JobId job, int worker, std::uint64_t generation, TimePoint now) {
  return with_team(job, now, [&](Team& team) { return team.placed(worker, generation, now); });
}

JobActions Coordinator::left(JobId job, int worker, std::uint64_t generation, Leaving why,
                             TimePoint now) {
  return with_team(job, now, [&](Team& team) { return team.left(worker, generation, why, now); });
}

JobActions Coordinator::finished(JobId job, int worker, TimePoint now) {
  return with_team(job, now, [&](Team& team) { return team.finished(worker, now); });
}

JobActions Coordinator::ended(JobId job, int worker, const Ending& ending, TimePoint now) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.where.erase(worker) == 0) return {};
  return with_team(job, now, [&](Team& team) { return team.ended(worker, ending, now); });
}

JobActions Coordinator::tick(TimePoint now) {
  for (auto& [id, entry] : jobs_) {
    if (entry.team && now >= entry.team->deadline()) take(id, entry.team->tick(now));
  }
  settle(now);
  return give();
}

TimePoint Coordinator::deadline() const {
  TimePoint first = TimePoint::max();
  for (const auto& [id, entry] : jobs_) {
    if (entry.team) first = std::min(first, entry.team->deadline());
  }
  return first;
}

void Coordinator::settle(TimePoint now) {
  // A worker that shall end before it had a slot never was.
  for (auto& [id, entry] : jobs_) {
    if (!entry.team) continue;
    const std::deque<int> unplaced = entry.unplaced;
    for (const int worker : unplaced) {
      if (entry.team->wants(worker)) continue;
      std::erase(entry.unplaced, worker);
      take(id, entry.team->ended(worker, {}, now));
    }
  }
  std::erase_if(jobs_,
                [](const auto& job) { return job.second.team && job.second.team->is_over(); });
  allot(now);
  start_unplaced();
}

std::vector<JobId> Coordinator::in_order() const {
  std::vector<JobId> ids;
  for (const auto& [id, entry] : jobs_) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](JobId a, JobId b) {
    return jobs_.at(a).plan.priority > jobs_.at(b).plan.priority;
  });
  return ids;
}

void Coordinator::allot(TimePoint now) {
  int left = 0;
  for (const auto& [node, slots] : nodes_) left += slots;
  std::map<JobId, int> share;
  const std::vector<JobId> ids = in_order();
  for (const JobId id : ids) {
    const Entry& entry = jobs_.at(id);
    const int least = std::min(entry.plan.team.least, entry.asked);
    // One that runs keeps what there is, and waits by itself when that is too little.
    if (least <= left || entry.team) share[id] = std::min(least, left);
    left -= share[id];
  }
  const auto raise = [&](auto limit_of) {
    for (const JobId id : ids) {
      if (share[id] == 0 && !jobs_.at(id).team) continue;
      const int more = std::clamp(limit_of(jobs_.at(id)) - share[id], 0, left);
      share[id] += more;
      left -= more;
    }
  };
  raise([](const Entry& entry) { return entry.asked; });
  raise([](const Entry& entry) { return std::max(entry.asked, entry.plan.most); });
  for (const JobId id : ids) {
    Entry& entry = jobs_.at(id);
    if (entry.team) {
      take(id, entry.team->resize(share[id], now));
    } else if (share[id] > 0) {
      TeamConfig config = entry.plan.team;
      config.wanted = share[id];
      entry.team.emplace(config);
      take(id, entry.team->begin(now));
    }
  }
}

void Coordinator::start_unplaced() {
  for (const JobId id : in_order()) {
    Entry& entry = jobs_.at(id);
    while (!entry.unplaced.empty()) {
      const std::optional<NodeId> node = free_node();
      if (!node) return;
      const int worker = entry.unplaced.front();
      entry.unplaced.pop_front();
      entry.where[worker] = *node;
      entry.team->set_node(worker, *node);
      add(id, StartWorker{worker}, *node);
    }
  }
}

// The one with most free slots: on a shared node workers are slower.
std::optional<NodeId> Coordinator::free_node() const {
  std::optional<NodeId> best;
  int most = 0;
  for (const auto& [node, slots] : nodes_) {
    if (const int free = slots - used_slots(node); free > most) {
      most = free;
      best = node;
    }
  }
  return best;
}

const Team* Coordinator::team(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() || !found->second.team ? nullptr : &*found->second.team;
}

std::optional<int> Coordinator::place_in_queue(JobId job) const {
  int place = 0;
  for (const JobId id : in_order()) {
    if (jobs_.at(id).team) continue;
    ++place;
    if (id == job) return place;
  }
  return std::nullopt;
}

std::optional<NodeId> Coordinator::node_of(JobId job, int worker) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  const auto where = found->second.where.find(worker);
  return where == found->second.where.end() ? std::nullopt : std::optional(where->second);
}

std::vector<int> Coordinator::workers_of(JobId job) const {
  std::vector<int> workers;
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    for (const auto& [worker, node] : found->second.where) workers.push_back(worker);
  }
  return workers;
}

int Coordinator::slots(NodeId node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? 0 : found->second;
}

int Coordinator::used_slots(NodeId node) const {
  int used = 0;
  for (const auto& [id, entry] : jobs_) {
    used += static_cast<int>(std::count_if(entry.where.begin(), entry.where.end(),
                                           [&](const auto& each) { return each.second == node; }));
  }
  return used;
}

}  // namespace tandem::cluster
