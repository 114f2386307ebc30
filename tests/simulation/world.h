// A cluster in simulated time: a real Coordinator, and nodes and workers that only pretend. A
// worker behaves as the training program does (src/train/trainer.cc, apps/worker/places.cc) and is
// watched as a node watches it (cluster/supervision.h); its messages and its orders are delayed
// but keep their order. Whatever must never happen is looked for at every turn.
//
// coordination.cc: the coordinator, and what its actions must obey. workers.cc: one worker.
// groups.cc: workers that train together. misfortune.cc: what befalls them. Belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agenda.h"
#include "cluster/coordinator.h"

namespace tandem::simulation {

using cluster::JobId;
using cluster::NodeId;

struct Group;

struct Worker {
  enum class State : std::uint8_t {
    kComing,
    kStarting,
    kWaiting,
    kJoining,
    kInGroup,
    kLeaving,
    kGone
  };

  JobId job = 0;
  int number = 0;
  NodeId node = 0;
  State state = State::kComing;
  std::uint64_t turn = 0;  // What was planned in an earlier turn does not happen.
  bool frozen = false, stop_asked = false, said_finished = false, fails = false;
  bool known_gone = false;  // The coordinator was told.
  std::optional<cluster::PlaceWorker> next;
  cluster::PlaceWorker place;
  Group* group = nullptr;
  bool placed = false;  // It has said so of its place.
  bool known_to_step = false;
  std::int64_t step = -1;  // -1: it has no state.
  std::optional<cluster::Supervision> supervision;
  TimePoint last_to, last_from;  // When the latest message arrives, in each direction.
  std::vector<std::function<void()>> postponed;  // Until it is no longer frozen.
};

struct Group {
  enum class Phase : std::uint8_t { kMeeting, kTraining, kFinishing, kOver };

  JobId job = 0;
  std::uint64_t generation = 0;
  int size = 0;
  bool anew = false;
  std::set<int> ranks;  // To which a worker was sent.
  Phase phase = Phase::kMeeting;
  std::vector<Worker*> members;  // Those that came.
  std::int64_t step = 0;
  std::uint64_t turn = 0;
  bool wants_stop = false, wants_regroup = false;
};

struct Job {
  cluster::JobPlan plan;
  std::int64_t steps = 0;             // To do.
  std::int64_t done = 0;              // By every member of a group.
  std::int64_t checkpoint = 0;        // The step of the newest.
  std::uint64_t last_generation = 0;  // Of those that made steps.
  int died_unborn = 0, lost = 0;
  bool cancelled = false, failed = false, finished = false;
  std::optional<cluster::EndJob> end;
};

struct Node {
  int slots = 0;
  bool up = false, known = false;
};

class World {
 public:
  explicit World(std::uint64_t seed) : dice_(seed) {}

  void add_node(NodeId node, int slots);
  // With all its workers; the coordinator learns of it later.
  void crash(NodeId node);
  void submit(JobId job, const cluster::JobPlan& plan, std::int64_t steps);
  void cancel(JobId job);
  void resize(JobId job, int wanted);
  void kill(Worker& worker);
  void freeze(Worker& worker, std::optional<milliseconds> duration);

  // Throws the dice for nodes, jobs and their misfortune.
  void plan_anything();
  // Until nothing happens any more. What went wrong; nothing when all went well.
  std::optional<std::string> run(milliseconds at_most);

  Agenda& agenda() { return agenda_; }
  void plan(milliseconds later, std::function<void()> happening);
  const Job& job(JobId id) const { return jobs_.at(id); }
  std::vector<Worker*> living(std::optional<JobId> job) const;

 private:
  // The coordinator.
  void apply(const cluster::JobActions& actions);
  void carry_out(const cluster::JobAction& action, const cluster::StartWorker& start);
  void carry_out(const cluster::JobAction& action, const cluster::PlaceWorker& place);
  void carry_out(const cluster::JobAction& action, const cluster::AnswerWorker& answer);
  void carry_out(const cluster::JobAction& action, const cluster::EndWorker& end);
  // Its jobs have no parameter servers.
  void carry_out(const cluster::JobAction&, const cluster::StartServer&) {}
  void carry_out(const cluster::JobAction&, const cluster::EndServer&) {}
  void carry_out(const cluster::JobAction& action, const cluster::TellUser& news);
  void carry_out(const cluster::JobAction& action, const cluster::EndJob& end);
  Worker* addressee(const cluster::JobAction& action, int number);
  void plan_tick();
  void check_end();
  void fail(const std::string& what);

  // A worker.
  void tell(Worker& worker, std::function<void()> message);
  void order(Worker& worker, std::function<void()> message);
  void when(Worker& worker, milliseconds later, std::function<void()> happening);
  void begin(Worker& worker);
  void receive(Worker& worker, const cluster::PlaceWorker& place);
  void stop(Worker& worker);
  void watch(Worker& worker);
  void obey(Worker& worker, cluster::Order order);
  void wait_for_place(Worker& worker);
  void join(Worker& worker);
  void leave(Worker& worker, cluster::Leaving why);
  void exit(Worker& worker);
  void thaw(Worker& worker);
  void tempt_fate(Worker& worker);

  // A group.
  void plan_for(Group& group, milliseconds later, void (World::*what)(Group&));
  bool is_whole(Group& group);
  void meet(Group& group);
  void begin_step(Group& group);
  void end_step(Group& group);
  void begin_finish(Group& group);
  void end_finish(Group& group);
  void say_placed(Worker& worker);
  void say_finished(Worker& worker);
  void break_up(Group& group, cluster::Leaving why, milliseconds after);

  // Misfortune.
  void plan_jobs();
  void misfortune();
  Worker* anyone();
  JobId any_job();

  Dice dice_;
  Agenda agenda_;
  cluster::Coordinator coordinator_;
  std::map<NodeId, Node> nodes_;
  std::map<JobId, Job> jobs_;
  std::map<std::pair<JobId, int>, std::unique_ptr<Worker>> workers_;
  std::map<std::pair<JobId, std::uint64_t>, Group> groups_;
  TimePoint next_tick_ = TimePoint::max();
  TimePoint peace_{};  // From then on nothing bad happens any more.
  int fate_percent_ = 0;
  int most_delay_ms_ = 60;
  std::optional<std::string> failure_;
};

}  // namespace tandem::simulation
