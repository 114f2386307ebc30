#include "cluster/master_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/node_kernels.h"
#include "cluster/orders.h"
#include "cluster/words.h"
#include "cluster/worker_news.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

void MasterActions::apply(JobActions actions) {
  for (JobAction& action : actions) todo_.push_back(std::move(action));
  if (applying_) return;
  applying_ = true;
  while (!todo_.empty()) {
    const JobAction action = std::move(todo_.front());
    todo_.pop_front();
    MasterJob& job = *state_.jobs.at(action.job);
    std::visit([&](const auto& what) { carry_out(job, what, action.node); }, action.action);
  }
  applying_ = false;
  const TimePoint deadline = state_.coordinator.deadline();
  if (deadline == TimePoint::max()) return timer_.cancel();
  timer_ = state_.loop.after(std::max<TimePoint::duration>(deadline - now(), milliseconds(1)),
                             [this] { apply(state_.coordinator.tick(now())); });
}

// Whether processes of the job may start; begins it if it has not.
bool MasterActions::is_ready(MasterJob& job) {
  if (state_.shutting_down) return false;
  if (broken_.contains(job.id())) return false;
  if (job.state() == JobState::kQueued) {
    const std::string& host = state_.config.listen.host;
    const bool anywhere = host == "0.0.0.0" || host == "::";
    keep_begun(job, job.begin(common_kernels(*state_.peers), anywhere ? "" : host));
  }
  return job.state() == JobState::kRunning;
}

// A job that cannot begin ends before it had a worker.
void MasterActions::keep_begun(MasterJob& job, Status status) {
  if (status.ok()) return;
  broken_.emplace(job.id(), std::move(status).error());
  const JobId id = job.id();
  apply(state_.coordinator.cancel(id, now()));
  for (const int worker : state_.coordinator.workers_of(id))
    apply(state_.coordinator.ended(id, worker, {}, now()));
}

// A job whose files cannot be written ends.
void MasterActions::keep(MasterJob& job, Status status) {
  if (status.ok() || job.state() != JobState::kRunning) return;
  state_.config.log(fmt::format("{}: {}", job.name(), status.error().message()));
  const JobId id = job.id();
  broken_.emplace(id, std::move(status).error());
  apply(state_.coordinator.cancel(id, now()));
  apply(state_.coordinator.cancel(id, now()));
}

void MasterActions::carry_out(MasterJob& job, const StartWorker& start, NodeId node) {
  if (!is_ready(job)) return;
  job.run().add_worker(start.worker);
  state_.peers->send(node, order_to_start(job, start.worker, state_.peers->serve_at()));
}

void MasterActions::carry_out(MasterJob& job, const PlaceWorker& place, NodeId node) {
  if (job.state() != JobState::kRunning) return;
  const bool searches = job.run().must_find_checkpoint(place);
  // A search that is under way shuts out whoever was placed before it ended.
  if (!searches && !held_.contains(job.id())) return send_place(job, place, node, nullptr);
  Held& held = held_[job.id()];
  const bool is_first = std::exchange(held.generation, place.generation) != place.generation;
  if (is_first) held.places.clear();
  held.places.emplace_back(place, node);
  if (!is_first || !searches) return;
  state_.search.begin(job.id(), job.directory(), newest_or_start,
                      [this, &job](const Result<ResumePoint>& point) { release(job, point); });
}

// The checkpoint is found from which the members of a generation shall go on.
void MasterActions::release(MasterJob& job, const Result<ResumePoint>& point) {
  if (state_.shutting_down || (!point.ok() && point.error().code() == Code::kCancelled)) return;
  const Held held = std::move(held_[job.id()]);
  held_.erase(job.id());
  if (!point.ok()) return keep(job, point.error());
  for (const auto& [place, node] : held.places) send_place(job, place, node, &*point);
}

void MasterActions::send_place(MasterJob& job, const PlaceWorker& place, NodeId node,
                               const ResumePoint* found) {
  if (job.state() != JobState::kRunning) return;
  const auto words = job.run().place(place, job.meeting_point(), found);
  if (!words.ok()) return keep(job, words.error());
  state_.peers->send(node, order_to_tell(job.id(), place.worker, *words));
}

void MasterActions::carry_out(MasterJob& job, const AnswerWorker& answer, NodeId node) {
  state_.peers->send(node, order_to_tell(job.id(), answer.worker, to_wire(answer)));
}

void MasterActions::carry_out(MasterJob& job, const EndWorker& end, NodeId node) {
  state_.peers->send(node, order_to_end(job.id(), end.worker, end.order));
}

void MasterActions::carry_out(MasterJob& job, const StartServer& start, NodeId node) {
  if (!is_ready(job)) return;
  state_.peers->send(
      node, order_to_start(job, process_of_server(start.server), state_.peers->serve_at()));
}
void MasterActions::carry_out(MasterJob& job, const EndServer& end, NodeId node) {
  state_.peers->send(node, order_to_end(job.id(), process_of_server(end.server), Order::kKill));
}

void MasterActions::carry_out(MasterJob& job, const TellUser& news, NodeId) {
  state_.config.log(fmt::format("{}: {}: {} {}", job.name(), news.kind, news.who, news.detail));
  if (job.state() == JobState::kRunning) job.run().tell(news);
}

void MasterActions::carry_out(MasterJob& job, const EndJob& end, NodeId) {
  if (state_.shutting_down) return;  // Its files stay as they are, for the next master.
  state_.search.forget(job.id());
  held_.erase(job.id());
  const auto broken = broken_.find(job.id());
  if (broken != broken_.end()) {
    job.end(broken->second);
    broken_.erase(broken);
  } else {
    job.end(end);
  }
  state_.config.log(fmt::format("{}: {}", job.name(), to_string(job.state())));
}

}  // namespace tandem::cluster
