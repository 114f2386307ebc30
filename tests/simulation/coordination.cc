#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "world.h"

namespace tandem::simulation {

using cluster::EndJob;

void World::fail(const std::string& what) {
  if (failure_) return;
  const auto time = std::chrono::duration_cast<milliseconds>(agenda_.now().time_since_epoch());
  failure_ = fmt::format("at {} ms: {}", time.count(), what);
}

void World::plan(milliseconds later, std::function<void()> happening) {
  agenda_.at(agenda_.now() + later, std::move(happening));
}

std::optional<std::string> World::run(milliseconds at_most) {
  while (!failure_ && agenda_.go_on(TimePoint{} + at_most)) {
  }
  if (!failure_) check_end();
  return failure_;
}

// With nodes enough every job is over; else it says that it waits.
void World::check_end() {
  const int slots = std::accumulate(nodes_.begin(), nodes_.end(), 0, [](int sum, const auto& node) {
    return sum + node.second.slots;
  });
  bool some_cannot_run = false;
  for (const auto& [id, job] : jobs_) some_cannot_run |= !job.end && job.plan.team.least > slots;
  for (const auto& [id, job] : jobs_) {
    if (job.end) continue;
    const cluster::Team* team = coordinator_.team(id);
    const bool waits =
        team == nullptr ? coordinator_.place_in_queue(id).has_value() : team->is_waiting();
    if (!some_cannot_run || !waits)
      fail(fmt::format("job {} never ended: {} of {} steps, {} workers, generation {}, waiting {}",
                       id, job.done, job.steps, team == nullptr ? 0 : team->alive(),
                       team == nullptr ? 0 : team->generation(), waits));
  }
  for (const auto& [id, worker] : workers_) {
    if (jobs_.at(id.first).end && worker->state != Worker::State::kGone)
      fail(fmt::format("worker {} of job {} outlived it", id.second, id.first));
  }
}

void World::plan_tick() {
  const TimePoint deadline = coordinator_.deadline();
  if (deadline == TimePoint::max() || deadline >= next_tick_) return;
  next_tick_ = deadline;
  agenda_.at(deadline, [this, deadline] {
    if (next_tick_ != deadline) return;
    next_tick_ = TimePoint::max();
    apply(coordinator_.tick(agenda_.now()));
    if (coordinator_.deadline() <= agenda_.now()) fail("the coordinator's deadline never passes");
  });
}

void World::add_node(NodeId node, int slots) {
  nodes_[node] = {slots, true, true};
  apply(coordinator_.node_up(node, slots, agenda_.now()));
}

void World::crash(NodeId node) {
  nodes_.at(node).up = false;
  for (const auto& [id, worker] : workers_) {
    if (worker->node == node && worker->state != Worker::State::kGone) kill(*worker);
  }
  plan(dice_.time(0, 3000), [this, node] {
    nodes_.at(node).known = false;
    nodes_.at(node).slots = 0;
    for (const auto& [id, worker] : workers_) {
      if (worker->node != node) continue;
      worker->known_gone = true;
      worker->state = Worker::State::kGone;
    }
    apply(coordinator_.node_down(node, "its node is gone", agenda_.now()));
  });
}

void World::submit(JobId id, const cluster::JobPlan& job_plan, std::int64_t steps) {
  Job& job = jobs_[id];
  job.plan = job_plan;
  job.steps = steps;
  apply(coordinator_.submit(id, job_plan, agenda_.now()));
}

void World::cancel(JobId job) {
  if (jobs_.at(job).end) return;
  jobs_.at(job).cancelled = true;
  apply(coordinator_.cancel(job, agenda_.now()));
}

void World::resize(JobId job, int wanted) {
  apply(coordinator_.resize(job, wanted, agenda_.now()));
}

void World::apply(const cluster::JobActions& actions) {
  for (const cluster::JobAction& action : actions) {
    if (!jobs_.contains(action.job) || jobs_.at(action.job).end)
      return fail(fmt::format("an action of job {}, which is over", action.job));
    std::visit([&](const auto& what) { carry_out(action, what); }, action.action);
  }
  plan_tick();
}

Worker* World::addressee(const cluster::JobAction& action, int number) {
  const auto found = workers_.find({action.job, number});
  if (found != workers_.end() && !found->second->known_gone && found->second->node == action.node)
    return found->second.get();
  fail(fmt::format("an action for worker {} of job {}, which is not there", number, action.job));
  return nullptr;
}

void World::carry_out(const cluster::JobAction& action, const cluster::StartWorker& start) {
  const auto [at, is_new] =
      workers_.emplace(std::pair(action.job, start.worker), std::make_unique<Worker>());
  if (!is_new) return fail(fmt::format("worker {} was started twice", start.worker));
  Worker& worker = *at->second;
  worker.job = action.job;
  worker.number = start.worker;
  worker.node = action.node;
  const auto here = std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each.second->node == action.node && !each.second->known_gone;
  });
  if (!nodes_[action.node].known || here > nodes_.at(action.node).slots)
    return fail(fmt::format("{} workers on node {}", here, action.node));
  order(worker, [this, &worker] { begin(worker); });
}

void World::carry_out(const cluster::JobAction& action, const cluster::PlaceWorker& place) {
  Worker* worker = addressee(action, place.worker);
  if (worker == nullptr) return;
  Group& group = groups_[{action.job, place.generation}];
  const bool is_first = group.size == 0;
  if (is_first) {
    group.job = action.job;
    group.generation = place.generation;
    group.size = place.size;
    group.anew = place.anew;
  }
  if (group.size != place.size || group.anew != place.anew || place.rank < 0 ||
      place.rank >= place.size || !group.ranks.insert(place.rank).second)
    return fail(fmt::format("generation {} has two sets of members", place.generation));
  const Job& job = jobs_.at(action.job);
  if (!job.cancelled && !job.finished && place.size < job.plan.team.least)
    return fail(fmt::format("generation {} has too few members", place.generation));
  order(*worker, [this, worker, place] { receive(*worker, place); });
}

void World::carry_out(const cluster::JobAction&, const cluster::AnswerWorker& answer) {
  fail(fmt::format("worker {} has an answer, but none asks here", answer.worker));
}

void World::carry_out(const cluster::JobAction& action, const cluster::EndWorker& end) {
  Worker* worker = addressee(action, end.worker);
  if (worker == nullptr) return;
  order(*worker, [this, worker, end] {
    if (!worker->supervision) return;
    obey(*worker, end.order == cluster::Order::kKill
                      ? worker->supervision->abandon()
                      : worker->supervision->stop(cluster::Cause::kNone, agenda_.now()));
    watch(*worker);
  });
}

void World::carry_out(const cluster::JobAction& action, const cluster::TellUser& news) {
  if (news.kind != "lost") return;
  const int number = std::stoi(news.who.substr(news.who.find(' ')));
  const Worker& worker = *workers_.at({action.job, number});
  ++jobs_.at(action.job).lost;
  if (!worker.known_to_step) ++jobs_.at(action.job).died_unborn;
}

void World::carry_out(const cluster::JobAction& action, const cluster::EndJob& end) {
  Job& job = jobs_.at(action.job);
  job.end = end;
  for (const auto& [id, worker] : workers_) {
    if (id.first == action.job && !worker->known_gone)
      return fail(fmt::format("job {} is over before worker {}", action.job, id.second));
  }
  if (end.how == EndJob::How::kCancelled && !job.cancelled) fail("nobody cancelled it");
  if (end.how == EndJob::How::kFinished && job.done < job.steps)
    fail(fmt::format("job {} finished after {} of {} steps", action.job, job.done, job.steps));
  constexpr int kFewestUnborn = 3;
  const bool may_fail =
      job.failed || job.lost > job.plan.team.restarts || job.died_unborn >= kFewestUnborn;
  if (end.how == EndJob::How::kFailed && !may_fail)
    fail(fmt::format("job {} failed without a reason: {}", action.job, end.reason));
  if (end.how == EndJob::How::kFailed && end.worker < 0) fail("it failed because of nobody");
}

}  // namespace tandem::simulation
