// What a master makes of its nodes: those that come and go, and what they tell of their workers and
// parameter servers. Belongs to the master's thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cluster/master_actions.h"
#include "cluster/master_state.h"
#include "wire/cluster.pb.h"

namespace tandem::cluster {

class MasterNodes {
 public:
  // `worker_gone` is called whenever some are no more.
  MasterNodes(MasterState& state, MasterActions& actions, std::function<void()> worker_gone)
      : state_(state), actions_(actions), worker_gone_(std::move(worker_gone)) {}

  // For the peers of the state; it must not outlive this.
  Peers::Handler handler();

 private:
  void node_up(NodeId node, const wire::NodeHello& hello);
  void node_lost(NodeId node, const std::string& name, const Error& why);
  void heard(NodeId node, const wire::NodeMessage& message);
  void said(NodeId node, const wire::WorkerSaid& said);
  void line(NodeId node, const wire::WorkerLine& line);
  void ended(NodeId node, const wire::WorkerEnded& ended);
  MasterJob* job_of(NodeId node, JobId id, int worker) const;

  MasterState& state_;
  MasterActions& actions_;
  const std::function<void()> worker_gone_;
};

}  // namespace tandem::cluster
