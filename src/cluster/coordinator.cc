#include "cluster/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/words.h"

namespace tandem::cluster {
namespace {

// `started` is how many workers it has, which need not have loaded their job and data.
std::string why_a_team_waits(int least, int started) {
  const char* s = least == 1 ? "" : "s";
  if (started < least)
    return fmt::format("needs {} worker{}, {} {} there", least, s, started,
                       started == 1 ? "is" : "are");
  return fmt::format("needs {} worker{}, {} started and not ready yet", least, s,
                     started == 1 ? "1 is" : fmt::format("{} are", started));
}

}  // namespace

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
    if (const auto* server = std::get_if<StartServer>(&action)) {
      entry.unplaced_servers.push_back(server->server);
      continue;
    }
    if (const auto* served = std::get_if<EndServer>(&action)) {
      const auto where = entry.servers.find(served->server);
      std::erase(entry.unplaced_servers, served->server);
      if (where == entry.servers.end()) continue;
      node = where->second;
    } else if (const auto* place = std::get_if<PlaceWorker>(&action)) {
      node = entry.where.at(place->worker);
    } else if (const auto* answer = std::get_if<AnswerWorker>(&action)) {
      node = entry.where.at(answer->worker);
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

// What a worker says counts once it was started and until its end is known.
template <typename Event>
JobActions Coordinator::with_worker(JobId job, int worker, TimePoint now, Event event) {
  if (!node_of(job, worker)) return {};
  return with_team(job, now, event);
}

JobActions Coordinator::node_up(NodeId node, int slots, TimePoint now) {
  nodes_[node].slots = slots;
  settle(now);
  return give();
}

JobActions Coordinator::node_down(NodeId node, const std::string& why, TimePoint now) {
  nodes_.erase(node);
  std::map<JobId, std::vector<int>> gone;
  for (auto& [id, entry] : jobs_) {
    for (const auto& [worker, where] : entry.where) {
      if (where == node) gone[id].push_back(worker);
    }
    std::erase_if(entry.where, [&](const auto& each) { return each.second == node; });
  }
  // With their new share at once, so that none replaces what it cannot have.
  const std::map<JobId, int> share = shares(now);
  // Servers first: workers are placed with those that are known to live.
  for (auto& [id, entry] : jobs_) {
    for (const auto& [server, where] : std::map(entry.servers)) {
      if (where != node) continue;
      entry.servers.erase(server);
      if (entry.team) take(id, entry.team->server_ended(server, why, now));
    }
  }
  for (const auto& [id, workers] : gone)
    take(id, jobs_.at(id).team->ended(workers, {Ending::Kind::kLost, why}, share.at(id), now));
  settle(now);
  return give();
}

JobActions Coordinator::submit(JobId job, const JobPlan& plan, TimePoint now) {
  Entry entry;
  entry.plan = plan;
  entry.asked = plan.team.wanted;
  entry.since = now;
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

JobActions Coordinator::resize_servers(JobId job, int wanted, TimePoint now) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  found->second.plan.team.servers = wanted;
  return with_team(job, now, [&](Team& team) { return team.resize_servers(wanted, now); });
}

JobActions Coordinator::ready(JobId job, int worker, TimePoint now) {
  return with_worker(job, worker, now, [&](Team& team) { return team.ready(worker, now); });
}

JobActions Coordinator::placed(JobId job, int worker, std::uint64_t generation, TimePoint now) {
  return with_worker(job, worker, now,
                     [&](Team& team) { return team.placed(worker, generation, now); });
}

JobActions Coordinator::left(JobId job, int worker, std::uint64_t generation, Leaving why,
                             TimePoint now) {
  return with_worker(job, worker, now,
                     [&](Team& team) { return team.left(worker, generation, why, now); });
}

JobActions Coordinator::progressed(JobId job, int worker, const DataProgress& progress,
                                   TimePoint now) {
  return with_worker(job, worker, now,
                     [&](Team& team) { return team.progressed(worker, progress); });
}

JobActions Coordinator::asked(JobId job, int worker, std::uint64_t number,
                              const converge::Question& question, TimePoint now) {
  return with_worker(job, worker, now,
                     [&](Team& team) { return team.asked(worker, number, question); });
}

JobActions Coordinator::finished(JobId job, int worker, TimePoint now) {
  return with_worker(job, worker, now, [&](Team& team) { return team.finished(worker, now); });
}

JobActions Coordinator::ended(JobId job, int worker, const Ending& ending, TimePoint now) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  const auto where = found->second.where.find(worker);
  if (where == found->second.where.end()) return {};
  --nodes_.at(where->second).used;
  found->second.where.erase(where);
  return with_team(job, now, [&](Team& team) { return team.ended(worker, ending, now); });
}

JobActions Coordinator::server_ready(JobId job, int server, TimePoint now) {
  return with_team(job, now, [&](Team& team) { return team.server_ready(server, now); });
}

JobActions Coordinator::server_ended(JobId job, int server, const std::string& how, TimePoint now) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) found->second.servers.erase(server);
  return with_team(job, now, [&](Team& team) { return team.server_ended(server, how, now); });
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
  // What is forgotten may end its job, which leaves more to the others.
  do {
    std::erase_if(jobs_,
                  [](const auto& job) { return job.second.team && job.second.team->is_over(); });
    allot(now);
  } while (forget_unplaced(now) == Found::kSomething);
  start_unplaced_servers();
  start_unplaced();
}

// A worker that shall end before it had a slot never was.
Coordinator::Found Coordinator::forget_unplaced(TimePoint now) {
  Found found = Found::kNothing;
  for (auto& [id, entry] : jobs_) {
    const std::deque<int> unplaced = entry.unplaced;
    for (const int worker : unplaced) {
      if (entry.team->wants(worker)) continue;
      found = Found::kSomething;
      std::erase(entry.unplaced, worker);
      take(id, entry.team->ended(worker, {}, now));
    }
  }
  return found;
}

std::vector<JobId> Coordinator::in_order() const {
  std::vector<JobId> ids;
  for (const auto& [id, entry] : jobs_) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](JobId a, JobId b) {
    return jobs_.at(a).plan.priority > jobs_.at(b).plan.priority;
  });
  return ids;
}

int Coordinator::all_slots() const {
  int all = 0;
  for (const auto& [id, node] : nodes_) all += node.slots;
  return all;
}

std::map<JobId, int> Coordinator::shares(TimePoint now) const {
  int left = all_slots();
  std::map<JobId, int> share;
  const std::vector<JobId> ids = in_order();
  const auto raise = [&](JobId id, int limit) {
    const int more = std::clamp(limit - share[id], 0, left);
    share[id] += more;
    left -= more;
  };
  // Whoever has enough to run keeps it: nobody's work is thrown away for another's.
  for (const JobId id : ids) {
    const Entry& entry = jobs_.at(id);
    const int least = entry.plan.team.least;
    const bool has_state = entry.team && entry.team->generation() > 0;
    raise(id, has_state || static_cast<int>(entry.where.size()) >= least ? least : 0);
  }
  // One that has begun keeps what there is, and waits by itself when that is too little.
  bool may_begin = true;
  for (const JobId id : ids) {
    const Entry& entry = jobs_.at(id);
    const int least = entry.plan.team.least;
    if (entry.team || (may_begin && least <= left)) {
      raise(id, least);
    } else if (least <= all_slots() && now - entry.since >= kMostOvertaking) {
      may_begin = false;  // What becomes free is for this one.
    }
  }
  const auto raise_all = [&](auto limit_of) {
    for (const JobId id : ids) {
      if (share[id] > 0 || jobs_.at(id).team) raise(id, limit_of(jobs_.at(id)));
    }
  };
  raise_all([](const Entry& entry) { return entry.asked; });
  raise_all([](const Entry& entry) { return std::max(entry.asked, entry.plan.most); });
  return share;
}

void Coordinator::allot(TimePoint now) {
  const std::map<JobId, int> share = shares(now);
  for (const JobId id : in_order()) {
    Entry& entry = jobs_.at(id);
    if (entry.team) {
      if (entry.team->wanted() != share.at(id)) take(id, entry.team->resize(share.at(id), now));
    } else if (share.at(id) > 0) {
      TeamConfig config = entry.plan.team;
      config.wanted = share.at(id);
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
      ++nodes_.at(*node).used;
      entry.team->set_node(worker, *node);
      add(id, StartWorker{worker}, *node);
    }
  }
}

// The one with most free slots: on a shared node workers are slower.
std::optional<NodeId> Coordinator::free_node() const {
  std::optional<NodeId> best;
  int most = 0;
  for (const auto& [id, node] : nodes_) {
    if (const int free = node.slots - node.used; free > most) {
      most = free;
      best = id;
    }
  }
  return best;
}

// Each where the job has the fewest, as soon as there is a node: so copies of a slice, which
// servers that follow each other hold, are on different nodes where that can be.
void Coordinator::start_unplaced_servers() {
  if (nodes_.empty()) return;
  for (auto& [id, entry] : jobs_) {
    for (; !entry.unplaced_servers.empty(); entry.unplaced_servers.pop_front()) {
      const int server = entry.unplaced_servers.front();
      std::map<NodeId, int> count;
      for (const auto& [number, where] : entry.servers) ++count[where];
      const NodeId node = std::min_element(nodes_.begin(), nodes_.end(), [&](auto& a, auto& b) {
                            return count[a.first] < count[b.first];
                          })->first;
      entry.servers[server] = node;
      add(id, StartServer{server}, node);
    }
  }
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

std::string Coordinator::why_it_waits(JobId job) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return "";
  const Entry& entry = found->second;
  const int least = entry.plan.team.least, slots = all_slots();
  if (entry.team && !entry.team->is_waiting()) return "";
  const std::string needs = fmt::format("needs {} slot{}", least, least == 1 ? "" : "s");
  if (nodes_.empty()) return needs + ", the cluster has no node";
  if (least > slots) return fmt::format("{}, the cluster has {}", needs, slots);
  if (entry.team) return why_a_team_waits(least, static_cast<int>(entry.where.size()));
  int taken = 0;
  for (const auto& [id, other] : jobs_) taken += other.team ? other.plan.team.least : 0;
  if (least > slots - taken)
    return fmt::format("{}, and {} of {} cannot be taken from jobs that run", needs, taken, slots);
  return "jobs that came before it go first";
}

std::optional<NodeId> Coordinator::node_of(JobId job, int worker) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  const std::map<int, NodeId>& all =
      is_server(worker) ? found->second.servers : found->second.where;
  const auto where = all.find(is_server(worker) ? server_of(worker) : worker);
  return where == all.end() ? std::nullopt : std::optional(where->second);
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
  return found == nodes_.end() ? 0 : found->second.slots;
}

int Coordinator::used_slots(NodeId node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? 0 : found->second.used;
}

}  // namespace tandem::cluster
