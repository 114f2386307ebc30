#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "world.h"

namespace tandem::simulation {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(Simulation, WhateverHappensEveryJobComesToItsEnd) {
  const char* chosen = std::getenv("TANDEM_TEST_SEED");
  const std::uint64_t first = chosen == nullptr ? 1 : std::stoull(chosen);
  const std::uint64_t last = chosen == nullptr ? 12000 : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    World world(seed);
    world.plan_anything();
    const auto failure = world.run(minutes(30));
    ASSERT_FALSE(failure.has_value()) << "TANDEM_TEST_SEED=" << seed << ": " << *failure;
  }
}

// One worker on each; a hundred nodes are lost at once, and come back.
TEST(Simulation, TwoThousandNodesLoseAHundredAndGoOn) {
  constexpr int kNodes = 2000, kLost = 100, kSteps = 60;
  World world(1);
  for (NodeId node = 1; node <= kNodes; ++node) world.add_node(node, 1);
  cluster::JobPlan plan;
  plan.team.wanted = plan.most = kNodes;
  plan.team.least = kNodes / 2;
  plan.team.restarts = kLost;
  world.submit(1, plan, kSteps);
  world.plan(seconds(4), [&] {
    for (NodeId node = 1; node <= kLost; ++node) world.crash(node);
  });
  world.plan(seconds(10), [&] {
    for (NodeId node = 1; node <= kLost; ++node) world.add_node(node, 1);
  });
  const auto failure = world.run(minutes(5));
  ASSERT_FALSE(failure.has_value()) << *failure;
  ASSERT_TRUE(world.job(1).end.has_value());
  EXPECT_EQ(world.job(1).end->how, cluster::EndJob::How::kFinished);
  EXPECT_EQ(world.job(1).done, kSteps);
}

}  // namespace
}  // namespace tandem::simulation
