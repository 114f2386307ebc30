// The cluster's mind: which nodes there are, which jobs wait or run, how many workers each gets and
// where they are started. Each job's workers are a Team. A pure state machine like it: events with
// their time in, actions out; no clock, socket, thread or file.
//
// Jobs share the nodes' slots by priority, then in the order in which they came: first each gets
// the fewest workers that it can run with, then what it asked for, then the most that it can use. A
// job for which there is not even the first waits in the queue; one that can run is not stopped for
// it, but shrinks. Jobs that need less may begin before it, but not for ever: when it has waited
// for kMostOvertaking, none behind it begins before it.
//
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/team.h"

namespace tandem::cluster {

using JobId = std::int64_t;
using NodeId = std::int64_t;

struct JobPlan {
  TeamConfig team;
  int most = 1;  // Workers that it can use.
  int priority = 0;
};

struct JobAction {
  JobId job = 0;
  TeamAction action;
  NodeId node = 0;  // Of the worker that the action is about.
};
using JobActions = std::vector<JobAction>;

class Coordinator {
 public:
  static constexpr std::chrono::minutes kMostOvertaking{5};

  JobActions node_up(NodeId node, int slots, TimePoint now);
  // Its workers are lost with it.
  JobActions node_down(NodeId node, const std::string& why, TimePoint now);

  JobActions submit(JobId job, const JobPlan& plan, TimePoint now);
  // Of a job that has not started: it ends at once.
  JobActions cancel(JobId job, TimePoint now);
  // Changes what the job asks for, but never to fewer than it can run with.
  JobActions resize(JobId job, int wanted, TimePoint now);
  // The number of its parameter servers.
  JobActions resize_servers(JobId job, int wanted, TimePoint now);

  // What a worker said or what became of it; unknown ones are ignored. See Team.
  JobActions ready(JobId job, int worker, TimePoint now);
  JobActions placed(JobId job, int worker, std::uint64_t generation, TimePoint now);
  JobActions left(JobId job, int worker, std::uint64_t generation, Leaving why, TimePoint now);
  JobActions progressed(JobId job, int worker, const DataProgress& progress, TimePoint now);
  JobActions asked(JobId job, int worker, std::uint64_t number, const converge::Question& question,
                   TimePoint now);
  JobActions finished(JobId job, int worker, TimePoint now);
  JobActions ended(JobId job, int worker, const Ending& ending, TimePoint now);

  JobActions server_ready(JobId job, int server, TimePoint now);
  JobActions server_ended(JobId job, int server, const std::string& how, TimePoint now);

  JobActions tick(TimePoint now);
  TimePoint deadline() const;

  // Nothing of a job that waits in the queue or is over.
  const Team* team(JobId job) const;
  // Where in the queue a job waits, from 1; nothing of one that does not.
  std::optional<int> place_in_queue(JobId job) const;
  // Why it does, or why a job that has begun waits: "needs 4 slots, the cluster has 2". "" of one
  // that does not wait.
  std::string why_it_waits(JobId job) const;
  // Of a worker, or of a parameter server by its process's number (cluster/words.h).
  std::optional<NodeId> node_of(JobId job, int worker) const;
  // Those that were started and have not ended.
  std::vector<int> workers_of(JobId job) const;
  int slots(NodeId node) const;
  int used_slots(NodeId node) const;

 private:
  struct Node {
    int slots = 0, used = 0;
  };
  struct Entry {
    JobPlan plan;
    int asked = 1;
    TimePoint since{};  // When it came into the queue.
    std::optional<Team> team;
    std::map<int, NodeId> where;       // Workers that were started.
    std::deque<int> unplaced;          // Workers for which no slot is free yet.
    std::map<int, NodeId> servers;     // Parameter servers that were started; they take no slots.
    std::deque<int> unplaced_servers;  // For which there is no node yet.
  };

  template <typename Event>
  JobActions with_team(JobId job, TimePoint now, Event event);
  template <typename Event>
  JobActions with_worker(JobId job, int worker, TimePoint now, Event event);
  void add(JobId job, TeamAction action, NodeId node);
  void take(JobId job, TeamActions actions);
  void settle(TimePoint now);
  enum class Found : std::uint8_t { kNothing, kSomething };
  Found forget_unplaced(TimePoint now);
  int all_slots() const;
  std::map<JobId, int> shares(TimePoint now) const;
  void allot(TimePoint now);
  void start_unplaced();
  std::optional<NodeId> free_node() const;
  void start_unplaced_servers();
  std::vector<JobId> in_order() const;
  JobActions give();

  std::map<NodeId, Node> nodes_;
  std::map<JobId, Entry> jobs_;  // Those that are not over.
  JobActions actions_;
};

}  // namespace tandem::cluster
