#include <gtest/gtest.h>

#include "cluster/team.h"
#include "cluster/team_testing.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;

TimePoint at(int ms) {
  return TimePoint{} + milliseconds(ms);
}

TeamConfig with_servers(int servers, int restarts = 8) {
  TeamConfig config;
  config.wanted = 2;
  config.servers = servers;
  config.restarts = restarts;
  return config;
}

// Two workers and the servers, all of them there; a step is made.
Team trained(const TeamConfig& config) {
  Team team(config);
  (void)team.begin(at(0));
  for (int server = 0; server < config.servers; ++server) (void)team.server_ready(server, at(0));
  for (int worker = 0; worker < 2; ++worker) (void)team.ready(worker, at(0));
  for (int worker = 0; worker < 2; ++worker) (void)team.placed(worker, 1, at(0));
  return team;
}

TEST(TeamServers, WorkersAreNotPlacedBeforeAllServersServe) {
  Team team(with_servers(2));
  EXPECT_EQ(texts(team.begin(at(0))),
            (Texts{"start server 0", "start server 1", "start 0", "start 1"}));
  (void)team.ready(0, at(1));
  EXPECT_EQ(texts(team.ready(1, at(1))), Texts{});
  EXPECT_EQ(texts(team.server_ready(1, at(2))), Texts{});
  const TeamActions actions = team.server_ready(0, at(3));
  EXPECT_EQ(texts(actions), (Texts{"place 0 in 1 as 0/2 anew", "place 1 in 1 as 1/2 anew"}));
  EXPECT_EQ(std::get<PlaceWorker>(actions[0]).servers, (std::vector<int>{0, 1}));
}

TEST(TeamServers, ALostServerIsReplacedAndTheWorkersGoBackTogether) {
  Team team = trained(with_servers(2));
  const TeamActions lost = team.server_ended(0, "was killed", at(10));
  EXPECT_EQ(texts(lost), Texts{"start server 2"});
  EXPECT_EQ(told(lost, "lost"), Texts{"server 0: was killed"});
  EXPECT_EQ(texts(team.left(0, 1, Leaving::kPeerLost, at(11))), Texts{});
  EXPECT_EQ(texts(team.left(1, 1, Leaving::kPeerLost, at(11))), Texts{});
  const TeamActions actions = team.server_ready(2, at(20));
  EXPECT_EQ(texts(actions), (Texts{"place 0 in 2 as 0/2 anew", "place 1 in 2 as 1/2 anew"}));
  EXPECT_EQ(std::get<PlaceWorker>(actions[0]).servers, (std::vector<int>{2, 1}));
}

TeamConfig with_copies(int servers, int replicas) {
  TeamConfig config = with_servers(servers);
  config.replicas = replicas;
  return config;
}

// All members leave `generation`, and what follows when who is to blame is known.
TeamActions meet_again(Team& team, std::uint64_t generation, int ms) {
  for (int worker = 0; worker < 2; ++worker)
    (void)team.left(worker, generation, Leaving::kPeerLost, at(ms));
  return team.tick(at(ms + 1000));
}

TEST(TeamServers, ALostServerWithACopyCostsNoStep) {
  Team team = trained(with_copies(3, 2));
  EXPECT_EQ(texts(team.server_ended(1, "was killed", at(10))), Texts{"start server 3"});
  EXPECT_EQ(texts(meet_again(team, 1, 11)), Texts{});
  const TeamActions actions = team.server_ready(3, at(2000));
  EXPECT_EQ(texts(actions), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
  EXPECT_EQ(std::get<PlaceWorker>(actions[0]).servers, (std::vector<int>{0, 3, 2}));
  EXPECT_EQ(std::get<PlaceWorker>(actions[0]).former_servers, std::vector<int>{});
}

TEST(TeamServers, TwoLostServersCostNothingWhereACopyOfEachSliceIsLeft) {
  for (const auto& [first, second, anew] :
       {std::tuple(0, 2, false), {1, 3, false}, {0, 1, true}, {3, 0, true}}) {
    Team team = trained(with_copies(4, 2));
    (void)team.server_ended(first, "was killed", at(10));
    (void)team.server_ended(second, "was killed", at(11));
    (void)meet_again(team, 1, 12);
    (void)team.server_ready(4, at(2000));
    EXPECT_EQ(texts(team.server_ready(5, at(2000))).at(0),
              anew ? "place 0 in 2 as 0/2 anew" : "place 0 in 2 as 0/2")
        << first << " and " << second;
  }
}

// A new server has nothing before a step was made with it.
TEST(TeamServers, TheCopyThatIsLostBeforeTheOtherWasMadeAnewCosts) {
  Team team = trained(with_copies(2, 2));
  (void)team.server_ended(0, "was killed", at(10));
  (void)meet_again(team, 1, 11);
  EXPECT_EQ(texts(team.server_ready(2, at(2000))).at(0), "place 0 in 2 as 0/2");
  (void)team.server_ended(1, "was killed", at(2001));
  (void)meet_again(team, 2, 2002);
  EXPECT_EQ(texts(team.server_ready(3, at(4000))).at(0), "place 0 in 3 as 0/2 anew");
}

TEST(TeamServers, WorkersThatFindNoStateGoBack) {
  Team team = trained(with_copies(2, 2));
  (void)team.server_ended(0, "was killed", at(10));
  (void)meet_again(team, 1, 11);
  (void)team.server_ready(2, at(2000));
  EXPECT_EQ(texts(team.left(0, 2, Leaving::kNoState, at(2001))),
            (Texts{"place 0 in 3 as 0/2 anew", "place 1 in 3 as 1/2 anew"}));
}

TEST(TeamServers, AServerThatJoinsGetsASliceWithTheNextGeneration) {
  Team team = trained(with_servers(1));
  const TeamActions resized = team.resize_servers(2, at(10));
  EXPECT_EQ(texts(resized), Texts{"start server 1"});
  EXPECT_EQ(told(resized, "resized"), Texts{"master: from 1 to 2 servers"});
  const TeamActions actions = team.server_ready(1, at(20));
  EXPECT_EQ(texts(actions), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
  EXPECT_EQ(std::get<PlaceWorker>(actions[0]).servers, (std::vector<int>{0, 1}));
  EXPECT_EQ(team.serving(), 2);
}

TEST(TeamServers, LanesAreNotSharedAnewWhileAServerIsAwaited) {
  TeamConfig config = with_servers(1);
  config.lanes = 4;
  Team team = trained(config);
  (void)team.resize_servers(2, at(10));
  for (std::int64_t step = 1; step < 20; ++step) {
    (void)team.progressed(1, {.step = step, .lane_seconds = 9});
    EXPECT_EQ(texts(team.progressed(0, {.step = step, .lane_seconds = 1})), Texts{});
  }
}

TEST(TeamServers, AServerThatLeavesLivesUntilOthersHaveWhatItHeld) {
  Team team = trained(with_servers(2));
  const TeamActions actions = team.resize_servers(1, at(10));
  EXPECT_EQ(texts(actions), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
  EXPECT_EQ(std::get<PlaceWorker>(actions.back()).servers, (std::vector<int>{0}));
  EXPECT_EQ(std::get<PlaceWorker>(actions.back()).former_servers, (std::vector<int>{1}));
  EXPECT_EQ(texts(team.placed(0, 2, at(20))), Texts{"kill server 1"});
  const TeamActions ended = team.server_ended(1, "was killed", at(21));
  EXPECT_EQ(texts(ended), Texts{});
  EXPECT_EQ(told(ended, "lost"), Texts{});
}

TEST(TeamServers, AServerThatIsLostWhileItLeavesCostsASliceButIsNotReplaced) {
  Team team = trained(with_servers(2));
  (void)team.resize_servers(1, at(10));
  EXPECT_EQ(texts(team.server_ended(1, "was killed", at(11))), Texts{});
  EXPECT_EQ(texts(meet_again(team, 2, 12)),
            (Texts{"place 0 in 3 as 0/2 anew", "place 1 in 3 as 1/2 anew"}));
}

TEST(TeamServers, AServerThatIsNoMoreWantedBeforeItJoinedGoesAtOnce) {
  Team team = trained(with_servers(1));
  (void)team.resize_servers(2, at(10));
  EXPECT_EQ(texts(team.resize_servers(1, at(11))), Texts{"kill server 1"});
  EXPECT_EQ(texts(team.server_ready(1, at(12))), Texts{});
}

TEST(TeamServers, WhatAWorkerSaysLateOfTheLostStateDoesNotCount) {
  Team team(with_servers(1));
  (void)team.begin(at(0));
  (void)team.server_ready(0, at(0));
  for (int worker = 0; worker < 2; ++worker) (void)team.ready(worker, at(0));
  (void)team.server_ended(0, "was killed", at(10));
  (void)team.placed(0, 1, at(11));
  EXPECT_EQ(texts(team.server_ready(1, at(20))),
            (Texts{"place 0 in 2 as 0/2 anew", "place 1 in 2 as 1/2 anew"}));
}

TEST(TeamServers, ALostWorkerCostsTheServersNothing) {
  Team team = trained(with_servers(1));
  EXPECT_EQ(texts(team.ended(1, {Ending::Kind::kLost, "was killed"}, at(10))),
            (Texts{"start 2", "place 0 in 2 as 0/1"}));
}

TEST(TeamServers, TooManyLostServersEndTheJob) {
  Team team = trained(with_servers(1, 0));
  EXPECT_EQ(texts(team.server_ended(0, "was killed", at(10))), (Texts{"kill 0", "kill 1"}));
  (void)team.ended(0, {}, at(11));
  EXPECT_EQ(texts(team.ended(1, {}, at(11))), Texts{"end failed -1"});
}

TEST(TeamServers, WorkersThatNeverComeToAStepAreNotPlacedForEver) {
  Team team = trained(with_servers(1));
  int ms = 10;
  Texts last;
  for (std::uint64_t generation = 1; generation < 100 && last != Texts{"kill 0", "kill 1"};
       ++generation) {
    for (int worker = 0; worker < 2; ++worker)
      (void)team.left(worker, generation, Leaving::kPeerLost, at(ms));
    ms += 1000;
    last = texts(team.tick(at(ms)));
  }
  EXPECT_EQ(last, (Texts{"kill 0", "kill 1"}));
}

TEST(CoordinatorServers, AreStartedWhenThereIsANodeAgain) {
  Coordinator coordinator;
  JobPlan plan;
  plan.team = with_servers(1);
  plan.most = 2;
  (void)coordinator.node_up(5, 2, at(0));
  EXPECT_EQ(texts(coordinator.submit(1, plan, at(0))),
            (Texts{"job 1: start server 0 on 5", "job 1: start 0 on 5", "job 1: start 1 on 5"}));
  (void)coordinator.server_ready(1, 0, at(1));
  EXPECT_EQ(coordinator.node_of(1, -1), 5);
  EXPECT_EQ(texts(coordinator.node_down(5, "gone", at(2))), Texts{});
  EXPECT_EQ(coordinator.node_of(1, -1), std::nullopt);
  Texts started;
  for (const std::string& text : texts(coordinator.node_up(6, 2, at(1000))))
    started.push_back(text);
  for (const std::string& text : texts(coordinator.tick(at(60'000)))) started.push_back(text);
  EXPECT_EQ(started,
            (Texts{"job 1: start server 1 on 6", "job 1: start 2 on 6", "job 1: start 3 on 6"}));
}

TEST(CoordinatorServers, AreSpreadOverTheNodes) {
  Coordinator coordinator;
  JobPlan plan;
  plan.team = with_copies(3, 2);
  plan.most = 2;
  (void)coordinator.node_up(5, 1, at(0));
  (void)coordinator.node_up(6, 1, at(0));
  const Texts begun = texts(coordinator.submit(1, plan, at(0)));
  EXPECT_EQ(Texts(begun.begin(), begun.begin() + 3),
            (Texts{"job 1: start server 0 on 5", "job 1: start server 1 on 6",
                   "job 1: start server 2 on 5"}));
  EXPECT_EQ(texts(coordinator.server_ended(1, 1, "was killed", at(1))),
            Texts{"job 1: start server 3 on 6"});
  EXPECT_EQ(texts(coordinator.resize_servers(1, 4, at(2))), Texts{"job 1: start server 4 on 6"});
}

TEST(CoordinatorServers, OfAJobThatWaitsAreAsManyAsWereAskedForLast) {
  Coordinator coordinator;
  JobPlan plan;
  plan.team = with_servers(1);
  plan.most = 2;
  (void)coordinator.submit(1, plan, at(0));
  EXPECT_EQ(texts(coordinator.resize_servers(1, 2, at(1))), Texts{});
  EXPECT_EQ(texts(coordinator.node_up(5, 2, at(2))),
            (Texts{"job 1: start server 0 on 5", "job 1: start server 1 on 5",
                   "job 1: start 0 on 5", "job 1: start 1 on 5"}));
}

TEST(TeamServers, ServersEndWithTheJob) {
  Team team = trained(with_servers(1));
  for (int worker = 0; worker < 2; ++worker) (void)team.finished(worker, at(20));
  (void)team.ended(0, {Ending::Kind::kFinished, ""}, at(21));
  EXPECT_EQ(texts(team.ended(1, {Ending::Kind::kFinished, ""}, at(21))),
            (Texts{"kill server 0", "end finished"}));
}

}  // namespace
}  // namespace tandem::cluster
