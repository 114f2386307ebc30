#include <gtest/gtest.h>

#include "cluster/lane_shares.h"
#include "cluster/team.h"
#include "cluster/team_testing.h"

namespace tandem::cluster {
namespace {

using Ends = std::vector<std::int64_t>;

TimePoint at(int ms) {
  return TimePoint{} + std::chrono::milliseconds(ms);
}

TEST(LaneShares, GiveTheSlowFewer) {
  EXPECT_EQ(fair_shares(8, std::vector<double>{1, 1, 1, 1}), (Ends{2, 4, 6, 8}));
  EXPECT_EQ(fair_shares(8, std::vector<double>{1, 3}), (Ends{6, 8}));
  EXPECT_EQ(fair_shares(3, std::vector<double>{100, 1, 1}), (Ends{1, 2, 3})) << "one is the least";
}

TEST(LaneShares, NoOtherWayOfTwoIsFaster) {
  for (const double slow : {1.0, 1.3, 2.0, 2.7, 9.0}) {
    const std::vector<double> seconds = {1, slow};
    double best = 1e9;
    for (std::int64_t first = 1; first < 12; ++first)
      best = std::min(best, step_seconds(Ends{first, 12}, seconds));
    EXPECT_DOUBLE_EQ(step_seconds(fair_shares(12, seconds), seconds), best) << slow;
  }
}

// Two workers of four lanes that train.
Team trained() {
  TeamConfig config;
  config.wanted = 2;
  config.lanes = 4;
  Team team(config);
  (void)team.begin(at(0));
  for (int worker = 0; worker < 2; ++worker) (void)team.ready(worker, at(0));
  for (int worker = 0; worker < 2; ++worker) (void)team.placed(worker, 1, at(0));
  return team;
}

// Both report; what follows from the second, which speaks for all.
TeamActions report(Team& team, std::int64_t step, double first, double second) {
  (void)team.progressed(1, {.step = step, .lane_seconds = second});
  return team.progressed(0, {.step = step, .lane_seconds = first});
}

TEST(TeamBalance, ASlowWorkerGetsFewerLanesOnceItWasSlowForAWhile) {
  Team team = trained();
  for (std::int64_t step = 1; step < 4; ++step) EXPECT_TRUE(report(team, step, 1, 4).empty());
  const TeamActions actions = report(team, 4, 1, 4);
  EXPECT_EQ(texts(actions), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
  EXPECT_EQ(told(actions, "rebalanced"), (Texts{"master: lanes by worker: 3 1"}));
  for (const TeamAction& action : actions) {
    const auto* place = std::get_if<PlaceWorker>(&action);
    if (place == nullptr) continue;
    EXPECT_EQ(place->lane_ends, (Ends{3, 4}));
  }
}

TEST(TeamBalance, SmallDifferencesAndRepeatedReportsChangeNothing) {
  Team team = trained();
  for (std::int64_t step = 1; step < 50; ++step)
    EXPECT_TRUE(report(team, step, 1, 1.4).empty()) << step;
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(report(team, 49, 1, 9).empty()) << i;
}

TEST(TeamBalance, AWorkerThatIsFastAgainGetsItsLanesBack) {
  Team team = trained();
  std::int64_t step = 1;
  while (team.generation() == 1) (void)report(team, step++, 1, 4);
  for (int worker = 0; worker < 2; ++worker) (void)team.placed(worker, 2, at(0));
  while (team.generation() == 2 && step < 100) (void)report(team, step++, 1, 1);
  EXPECT_EQ(team.generation(), 3U);
}

}  // namespace
}  // namespace tandem::cluster
