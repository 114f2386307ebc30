#include "cluster/worker_news.h"

#include <algorithm>

#include "cluster/words.h"
#include "converge/messages.h"

namespace tandem::cluster {

Result<JobActions> tell(Coordinator& coordinator, JobId job, int worker,
                        const wire::WorkerMessage& message, TimePoint now) {
  if (is_server(worker)) {
    if (message.has_serving()) return coordinator.server_ready(job, server_of(worker), now);
    return JobActions();
  }
  if (message.has_started()) return coordinator.ready(job, worker, now);
  if (message.has_placed())
    return coordinator.placed(job, worker, message.placed().generation(), now);
  if (message.has_left()) {
    const std::string& code = message.left().code();
    const Leaving why = code.empty()                         ? Leaving::kAgreed
                        : code == to_string(Code::kTimeout)  ? Leaving::kTimeout
                        : code == to_string(Code::kNotFound) ? Leaving::kNoState
                                                             : Leaving::kPeerLost;
    return coordinator.left(job, worker, message.left().generation(), why, now);
  }
  if (message.has_progress()) {
    const wire::Progress& said = message.progress();
    return coordinator.progressed(job, worker, {said.step(), said.samples(), said.lane_s()}, now);
  }
  if (message.has_question()) {
    TANDEM_ASSIGN(const converge::Question question, converge::from_wire(message.question()));
    return coordinator.asked(job, worker, message.question().number(), question, now);
  }
  if (message.has_finished()) return coordinator.finished(job, worker, now);
  return JobActions();
}

wire::WorkerMessage to_wire(const AnswerWorker& answer) {
  wire::WorkerMessage message;
  *message.mutable_verdict() = converge::to_wire(answer.verdict, answer.number);
  return message;
}

JobPlan plan_of(const job::Job& job, int priority) {
  JobPlan plan;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  plan.team.wanted = number(job.cluster.workers);
  plan.team.least = number(job.cluster.min_workers);
  plan.team.servers = job.has_servers() ? number(job.cluster.servers) : 0;
  plan.team.replicas = number(job.cluster.replicas);
  plan.team.lanes = job.lanes();
  plan.team.criteria = converge::criteria_of(job.train);
  plan.team.restarts = number(job.cluster.max_restarts);
  plan.most = number(std::max(job.cluster.workers, job.cluster.max_workers));
  plan.priority = priority;
  return plan;
}

}  // namespace tandem::cluster
