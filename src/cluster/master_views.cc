#include "cluster/master_views.h"

namespace tandem::cluster {

using Json = nlohmann::json;

Json nodes_json(const Peers& peers, const Coordinator& coordinator) {
  Json list = Json::array();
  peers.for_each([&](NodeId node, const wire::NodeHello& hello, const std::string& address) {
    list.push_back({{"id", node},
                    {"name", hello.name()},
                    {"address", address},
                    {"slots", coordinator.slots(node)},
                    {"used", coordinator.used_slots(node)},
                    {"processor", hello.processor()},
                    {"version", hello.version()}});
  });
  return {{"nodes", std::move(list)}};
}

ClusterFacts facts_of(const Peers& peers, const Coordinator& coordinator, const MasterJobs& jobs) {
  ClusterFacts facts;
  facts.refused_peers = peers.refused();
  peers.for_each([&](NodeId node, const wire::NodeHello&, const std::string&) {
    ++facts.nodes;
    facts.slots += coordinator.slots(node);
    facts.used_slots += coordinator.used_slots(node);
  });
  for (const auto& [id, job] : jobs) {
    ++facts.jobs[std::string(to_string(job->state()))];
    if (!has_ended(job->state()) && job->progress())
      facts.progress.emplace_back(job->name(), *job->progress());
  }
  return facts;
}

}  // namespace tandem::cluster
