#include "cluster/master_nodes.h"

#include <fmt/format.h>

#include <utility>

#include "cluster/node_kernels.h"
#include "cluster/outcome.h"
#include "cluster/remote.h"
#include "cluster/words.h"
#include "cluster/worker_news.h"

namespace tandem::cluster {
namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Peers::Handler MasterNodes::handler() {
  Peers::Handler handler;
  handler.on_node = [this](NodeId node, const wire::NodeHello& hello) { node_up(node, hello); };
  handler.on_message = [this](NodeId node, const wire::NodeMessage& message) {
    heard(node, message);
  };
  handler.on_lost = [this](NodeId node, const std::string& name, const Error& why) {
    node_lost(node, name, why);
  };
  handler.log = state_.config.log;
  return handler;
}

void MasterNodes::node_up(NodeId node, const wire::NodeHello& hello) {
  for (const auto& [id, job] : state_.jobs) {
    const Kernels& kernels = job->request().kernels;
    if (job->state() != JobState::kRunning || can_run(hello, kernels)) continue;
    return state_.peers->refuse(
        node, Error(Code::kInvalidArgument,
                    fmt::format("its processor lacks {}, which {} uses; it can join when that "
                                "has ended",
                                kernels.aten, job->name())));
  }
  state_.config.log(fmt::format("node {} joined with {} slots", hello.name(), hello.slots()));
  state_.config.publish(
      {{"kind", "node_joined"}, {"node", hello.name()}, {"slots", hello.slots()}});
  actions_.apply(state_.coordinator.node_up(node, hello.slots(), now()));
}

void MasterNodes::node_lost(NodeId node, const std::string& name, const Error& why) {
  state_.config.log(fmt::format("node {} is lost: {}", name, why.message()));
  state_.config.publish({{"kind", "node_lost"}, {"node", name}, {"detail", why.message()}});
  for (const auto& [id, job] : state_.jobs) {
    for (const int worker : state_.coordinator.workers_of(id)) {
      if (job->state() != JobState::kRunning || state_.coordinator.node_of(id, worker) != node)
        continue;
      job->run().forget(worker);
      if (state_.coordinator.team(id)->wants(worker)) ++state_.workers_lost;
    }
  }
  actions_.apply(state_.coordinator.node_down(
      node, fmt::format("was lost with its node {}: {}", name, why.message()), now()));
  worker_gone_();
}

// The job of a worker that really runs on this node.
MasterJob* MasterNodes::job_of(NodeId node, JobId id, int worker) const {
  if (state_.coordinator.node_of(id, worker) != node) return nullptr;
  const auto found = state_.jobs.find(id);
  return found == state_.jobs.end() || found->second->state() != JobState::kRunning
             ? nullptr
             : found->second.get();
}

void MasterNodes::heard(NodeId node, const wire::NodeMessage& message) {
  if (message.has_said()) return said(node, message.said());
  if (message.has_line()) return line(node, message.line());
  if (message.has_ended()) return ended(node, message.ended());
}

void MasterNodes::said(NodeId node, const wire::WorkerSaid& said) {
  MasterJob* job = job_of(node, said.job(), said.worker());
  if (job == nullptr) return;
  const auto words = parse_worker_message(said.message());
  if (!words.ok()) return state_.peers->refuse(node, words.error());
  if (is_server(said.worker())) {
    job->run().serving(server_of(said.worker()), state_.peers->host_of(node),
                       words->serving().port());
  } else {
    job->run().message(said.worker(), *words);
  }
  if (words->event().kind() == "checkpoint_failed")
    state_.config.log(fmt::format("{}: no checkpoint: {}", job->name(), words->event().detail()));
  auto actions = tell(state_.coordinator, said.job(), said.worker(), *words, now());
  if (!actions.ok()) return state_.peers->refuse(node, actions.error());
  actions_.apply(std::move(*actions));
}

void MasterNodes::line(NodeId node, const wire::WorkerLine& line) {
  MasterJob* job = job_of(node, line.job(), line.worker());
  if (job == nullptr) return;
  if (is_server(line.worker()))
    return job->run().server_line(server_of(line.worker()), line.text());
  const Stream stream = line.errors() ? Stream::kErrors : Stream::kOutput;
  job->run().line(line.worker(), stream, line.text());
}

void MasterNodes::ended(NodeId node, const wire::WorkerEnded& ended) {
  MasterJob* job = job_of(node, ended.job(), ended.worker());
  if (job == nullptr) return;
  const auto end = from_wire(ended);
  if (!end.ok()) return state_.peers->refuse(node, end.error());
  if (is_server(ended.worker())) {
    return actions_.apply(state_.coordinator.server_ended(ended.job(), server_of(ended.worker()),
                                                          describe_server_end(*end), now()));
  }
  const Team* team = state_.coordinator.team(ended.job());
  const bool was_wanted = team != nullptr && team->wants(ended.worker());
  const Ending ending = job->run().ended(ended.worker(), *end, team);
  if (was_wanted && ending.kind == Ending::Kind::kLost) ++state_.workers_lost;
  actions_.apply(state_.coordinator.ended(ended.job(), ended.worker(), ending, now()));
  worker_gone_();
}

}  // namespace tandem::cluster
