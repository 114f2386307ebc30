#include <algorithm>

#include "world.h"

namespace tandem::simulation {

using std::chrono::seconds;

std::vector<Worker*> World::living(std::optional<JobId> job) const {
  std::vector<Worker*> found;
  for (const auto& [id, worker] : workers_) {
    const bool lives =
        worker->state != Worker::State::kGone && worker->state != Worker::State::kComing;
    if (lives && (!job || id.first == *job)) found.push_back(worker.get());
  }
  return found;
}

Worker* World::anyone() {
  const std::vector<Worker*> all = living(std::nullopt);
  if (all.empty()) return nullptr;
  return all[static_cast<std::size_t>(dice_.between(0, static_cast<int>(all.size()) - 1))];
}

JobId World::any_job() {
  return dice_.between(1, static_cast<int>(jobs_.size()));
}

void World::plan_anything() {
  const int nodes = dice_.between(1, 5);
  const int slots = dice_.between(1, 4);
  for (NodeId node = 1; node <= nodes; ++node) add_node(node, slots);
  plan_jobs();
  peace_ = TimePoint{} + seconds(dice_.between(5, 40));
  most_delay_ms_ = dice_.percent(50) ? 60 : dice_.between(1, 1500);
  fate_percent_ = dice_.percent(50) ? dice_.between(0, 8) : 0;
  const int misfortunes = dice_.between(0, dice_.percent(80) ? 16 : 60);
  for (int i = 0; i < misfortunes; ++i) plan(dice_.time(0, 25000), [this] { misfortune(); });
  // In the end all nodes are back, or one is not.
  const bool one_stays_away = dice_.percent(10);
  plan(seconds(45), [this, nodes, slots, one_stays_away] {
    for (NodeId node = one_stays_away ? 2 : 1; node <= nodes; ++node) {
      if (!nodes_.at(node).known) add_node(node, slots);
    }
  });
}

void World::plan_jobs() {
  int slots = 0;
  for (const auto& [id, node] : nodes_) slots += node.slots;
  const int jobs = dice_.between(1, 4);
  for (JobId id = 1; id <= jobs; ++id) {
    cluster::JobPlan job_plan;
    job_plan.team.wanted = dice_.between(1, std::min(slots, 8));
    job_plan.team.least = dice_.percent(50) ? 1 : dice_.between(1, job_plan.team.wanted);
    job_plan.team.restarts = dice_.percent(80) ? 1000 : dice_.between(0, 4);
    job_plan.most = job_plan.team.wanted + (dice_.percent(50) ? 0 : dice_.between(0, 4));
    job_plan.priority = dice_.between(0, 2);
    const int steps = dice_.between(1, 60);
    if (id == 1) {
      submit(id, job_plan, steps);
    } else {
      jobs_[id];  // So that misfortune finds it.
      plan(dice_.time(0, 10000), [this, id, job_plan, steps] { submit(id, job_plan, steps); });
    }
  }
}

void World::misfortune() {
  switch (dice_.between(0, 9)) {
    case 0:
    case 1:
    case 2:
      if (Worker* worker = anyone()) kill(*worker);
      return;
    case 3:  // Two at once.
      for (int i = 0; i < 2; ++i) {
        if (Worker* worker = anyone()) kill(*worker);
      }
      return;
    case 4:  // All of a job.
      if (Worker* one = anyone()) {
        for (Worker* worker : living(one->job)) kill(*worker);
      }
      return;
    case 5: {
      Worker* worker = anyone();
      const bool for_ever = dice_.percent(50);
      const milliseconds duration = dice_.time(10, 9000);
      if (worker != nullptr) freeze(*worker, for_ever ? std::nullopt : std::optional(duration));
      return;
    }
    case 6: {
      const NodeId node = dice_.between(1, static_cast<int>(nodes_.size()));
      const int slots = nodes_.at(node).slots;
      const milliseconds away = dice_.time(3001, 15000);
      if (!nodes_.at(node).up) return;
      crash(node);
      plan(away, [this, node, slots] {
        if (!nodes_.at(node).known) add_node(node, slots);
      });
      return;
    }
    case 7: {
      const JobId job = any_job();
      if (!dice_.percent(40) || jobs_.at(job).steps == 0) return;
      cancel(job);
      if (dice_.percent(30)) plan(dice_.time(0, 2000), [this, job] { cancel(job); });
      return;
    }
    case 8: {
      const JobId job = any_job();
      const int wanted = dice_.between(1, 8);
      if (jobs_.at(job).steps > 0) resize(job, wanted);
      return;
    }
    case 9:
      if (Worker* worker = anyone(); worker != nullptr && dice_.percent(20)) {
        worker->fails = jobs_.at(worker->job).failed = true;
        kill(*worker);
      }
      return;
    default:
      return;
  }
}

}  // namespace tandem::simulation
