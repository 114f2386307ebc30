#include "cluster/team.h"

#include <gtest/gtest.h>

#include "cluster/team_testing.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;

const Ending kLost{Ending::Kind::kLost, "was killed"};
const Ending kFailed{Ending::Kind::kFailed, ""};

TimePoint at(int ms) {
  return TimePoint{} + milliseconds(ms);
}

TeamConfig workers(int wanted, int least = 1, int restarts = 8) {
  TeamConfig config;
  config.wanted = wanted;
  config.least = least;
  config.restarts = restarts;
  return config;
}

// Begun, all workers there, each with its place in generation 1.
Team met(const TeamConfig& config) {
  Team team(config);
  (void)team.begin(at(0));
  for (int worker = 0; worker < config.wanted; ++worker) (void)team.ready(worker, at(0));
  return team;
}

// And each has made a step.
Team trained(const TeamConfig& config) {
  Team team = met(config);
  for (int worker = 0; worker < config.wanted; ++worker) (void)team.placed(worker, 1, at(0));
  return team;
}

TEST(Team, TheFirstGenerationWaitsForAll) {
  Team team(workers(2));
  EXPECT_EQ(texts(team.begin(at(0))), (Texts{"start 0", "start 1"}));
  EXPECT_EQ(texts(team.ready(1, at(5))), Texts{});
  EXPECT_EQ(texts(team.ready(0, at(9))),
            (Texts{"place 0 in 1 as 0/2 anew", "place 1 in 1 as 1/2 anew"}));
  EXPECT_EQ(team.generation(), 1U);
  EXPECT_EQ(team.speaker(), 0);
}

TEST(Team, MembersOfOneNodeGetRanksThatFollowEachOther) {
  Team team(workers(4));
  (void)team.begin(at(0));
  for (const auto& [worker, node] : {std::pair(0, 2), {1, 1}, {2, 2}, {3, 1}})
    team.set_node(worker, node);
  for (int worker = 0; worker < 3; ++worker) (void)team.ready(worker, at(0));
  EXPECT_EQ(texts(team.ready(3, at(0))),
            (Texts{"place 1 in 1 as 0/4 anew", "place 3 in 1 as 1/4 anew",
                   "place 0 in 1 as 2/4 anew", "place 2 in 1 as 3/4 anew"}));
}

TEST(Team, ALostMemberGivesAllOthersTheirNextPlaceAtOnce) {
  Team team = trained(workers(3));
  const TeamActions actions = team.ended(1, kLost, at(10));
  EXPECT_EQ(texts(actions), (Texts{"start 3", "place 0 in 2 as 0/2", "place 2 in 2 as 1/2"}));
  EXPECT_EQ(told(actions, "lost"), Texts{"worker 1: was killed"});
  EXPECT_EQ(told(team.placed(2, 2, at(50)), "recovered").size(), 1U);
}

TEST(Team, OneThatComesJoinsOnlyOnceTheGenerationHasMadeAStep) {
  Team team = trained(workers(2));
  (void)team.ended(1, kLost, at(10));
  EXPECT_EQ(texts(team.ready(2, at(20))), Texts{});
  EXPECT_EQ(texts(team.placed(0, 2, at(30))),
            (Texts{"place 0 in 3 as 0/2", "place 2 in 3 as 1/2"}));
  EXPECT_EQ(told(team.placed(2, 3, at(40)), "joined"), Texts{"worker 2: generation 3"});
}

TEST(Team, OneThatJoinedIsToldOfAlsoWhenItsGenerationIsOver) {
  Team team = trained(workers(3));
  (void)team.ended(1, kLost, at(10));
  (void)team.ready(3, at(20));
  (void)team.placed(0, 2, at(30));
  (void)team.ended(2, kLost, at(40));
  EXPECT_EQ(told(team.placed(3, 3, at(50)), "joined"), Texts{"worker 3: generation 3"});
  EXPECT_EQ(told(team.placed(3, 4, at(60)), "joined"), Texts{});
}

TEST(Team, NewsOfAMissingMemberWaitForItsExit) {
  Team team = trained(workers(3));
  EXPECT_EQ(texts(team.left(0, 1, Leaving::kPeerLost, at(10))), Texts{});
  EXPECT_EQ(team.deadline(), at(310));
  EXPECT_EQ(team.speaker(), std::nullopt);
  EXPECT_EQ(texts(team.ended(1, kLost, at(20))),
            (Texts{"start 3", "place 0 in 2 as 0/2", "place 2 in 2 as 1/2"}));
}

TEST(Team, WhenNobodyExitsAllMeetAgainAfterTheEcho) {
  Team team = trained(workers(2));
  (void)team.left(0, 1, Leaving::kPeerLost, at(10));
  EXPECT_EQ(texts(team.tick(at(309))), Texts{});
  EXPECT_EQ(texts(team.tick(at(310))), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
  EXPECT_EQ(team.deadline(), TimePoint::max());
}

TEST(Team, WhoIsNotBackAfterATimeoutIsKilledAndReplaced) {
  Team team = trained(workers(3));
  (void)team.left(0, 1, Leaving::kTimeout, at(0));
  (void)team.left(2, 1, Leaving::kPeerLost, at(5));
  EXPECT_EQ(texts(team.tick(at(1999))), Texts{});
  const TeamActions actions = team.tick(at(2000));
  EXPECT_EQ(texts(actions),
            (Texts{"kill 1", "start 3", "place 0 in 2 as 0/2", "place 2 in 2 as 1/2"}));
  EXPECT_EQ(told(actions, "late").size(), 1U);
  EXPECT_EQ(texts(team.ended(1, kLost, at(2001))), Texts{});
}

TEST(Team, ALateWorkerThatMayNotBeReplacedEndsTheJobAtOnce) {
  Team team = trained(workers(2, 1, 0));
  (void)team.left(0, 1, Leaving::kTimeout, at(0));
  EXPECT_EQ(texts(team.tick(at(2000))), (Texts{"kill 1", "kill 0"}));
}

TEST(Team, WithTooFewItWaitsAndSaysSoOnce) {
  Team team = trained(workers(3, 3));
  (void)team.progressed(0, {.step = 7, .samples = 448});
  (void)team.progressed(1, {.step = 6, .samples = 384});  // The first member speaks for all.
  const TeamActions first = team.ended(1, kLost, at(10));
  EXPECT_EQ(told(first, "waiting"),
            Texts{"master: 2 of at least 3 workers are there; 7 steps with 448 samples are done"});
  EXPECT_TRUE(team.is_waiting());
  const TeamActions second = team.ended(2, kLost, at(20));
  EXPECT_EQ(told(second, "waiting"), Texts{});
  (void)team.tick(at(1000));
  (void)team.ready(3, at(1000));
  EXPECT_EQ(texts(team.ready(4, at(1000))),
            (Texts{"place 0 in 2 as 0/3", "place 3 in 2 as 1/3", "place 4 in 2 as 2/3"}));
  EXPECT_FALSE(team.is_waiting());
}

TEST(Team, ReplacementsComeEverSlowerUntilAStepIsMade) {
  Team team = trained(workers(2));
  EXPECT_EQ(texts(team.ended(1, kLost, at(0)))[0], "start 2");
  (void)team.ended(2, kLost, at(0));
  EXPECT_EQ(team.deadline(), at(250));
  EXPECT_EQ(texts(team.tick(at(250))), Texts{"start 3"});
  (void)team.ended(3, kLost, at(300));
  EXPECT_EQ(team.deadline(), at(800));
  (void)team.tick(at(800));
  (void)team.placed(0, 2, at(900));
  EXPECT_EQ(texts(team.ended(4, kLost, at(1000))), Texts{"start 5"});
}

TEST(Team, OneLostWorkerTooManyEndsTheJobAndIsNamed) {
  Team team = trained(workers(2, 1, 1));
  (void)team.ended(1, kLost, at(0));
  EXPECT_EQ(texts(team.ended(2, kLost, at(0))), Texts{"kill 0"});
  const TeamActions actions = team.ended(0, kLost, at(1));
  EXPECT_EQ(texts(actions), Texts{"end failed 2"});
  EXPECT_NE(std::get<EndJob>(actions.back()).reason.find("cluster.max_restarts"),
            std::string::npos);
}

TEST(Team, WhoIsLostAndNotReplacedUsesNothingUp) {
  Team team = trained(workers(4, 1, 0));
  EXPECT_EQ(texts(team.ended({1, 2}, kLost, 2, at(0))),
            (Texts{"place 0 in 2 as 0/2", "place 3 in 2 as 1/2"}));
}

TEST(Team, WorkersThatDieOneAfterAnotherBeforeAStepEndTheJob) {
  Team team = met(workers(1, 1, 100));
  (void)team.ended(0, kLost, at(0));
  (void)team.ended(1, kLost, at(100000));
  (void)team.tick(at(200000));
  const TeamActions actions = team.ended(2, kLost, at(300000));
  EXPECT_EQ(texts(actions), Texts{"end failed 2"});
  EXPECT_EQ(std::get<EndJob>(actions.back()).reason,
            "3 workers in a row died before they made a step");
}

TEST(Team, WorkersThatWereSentAwayBeforeAStepAreNotBlamed) {
  Team team = trained(workers(2));
  for (int worker = 2; worker < 10; ++worker) {
    (void)team.resize(3, at(worker));
    EXPECT_EQ(texts(team.resize(2, at(worker))), Texts{fmt::format("kill {}", worker)});
    (void)team.ended(worker, kLost, at(worker));
  }
  EXPECT_EQ(texts(team.ended(1, kLost, at(20))), (Texts{"start 10", "place 0 in 2 as 0/1"}));
}

TEST(Team, AFailedWorkerEndsTheOthers) {
  Team team = trained(workers(3));
  EXPECT_EQ(texts(team.ended(1, kFailed, at(0))), (Texts{"kill 0", "kill 2"}));
  (void)team.ended(0, kLost, at(1));
  EXPECT_EQ(texts(team.ended(2, kLost, at(1))), Texts{"end failed 1"});
  EXPECT_TRUE(team.is_over());
}

TEST(Team, AllAreLostAndTheNextBeginsAnew) {
  Team team = trained(workers(2));
  (void)team.ended(0, kLost, at(0));
  EXPECT_EQ(told(team.ended(1, kLost, at(0)), "waiting"),
            Texts{"master: 0 of at least 1 workers are there; 0 steps with 0 samples are done"});
  (void)team.tick(at(250));
  EXPECT_EQ(texts(team.ready(2, at(500))), Texts{"place 2 in 3 as 0/1 anew"});
}

TEST(Team, WhatOneMemberHasDoneAllHave) {
  Team team = met(workers(2));
  (void)team.placed(0, 1, at(5));
  EXPECT_EQ(texts(team.ended(0, kLost, at(10))), (Texts{"start 2", "place 1 in 2 as 0/1"}));
}

TEST(Team, AStepOfAnEarlierGenerationIsStillAState) {
  Team team = met(workers(2));
  EXPECT_EQ(texts(team.ended(1, kLost, at(0))), (Texts{"start 2", "place 0 in 2 as 0/1 anew"}));
  (void)team.placed(0, 1, at(5));
  EXPECT_EQ(texts(team.left(0, 2, Leaving::kPeerLost, at(10))), Texts{});
  EXPECT_EQ(texts(team.tick(at(310))), Texts{"place 0 in 3 as 0/1"});
}

TEST(Team, UnknownWorkersAndOldGenerationsAreIgnored) {
  Team team = trained(workers(2));
  (void)team.ended(1, kLost, at(0));
  EXPECT_EQ(texts(team.left(0, 1, Leaving::kPeerLost, at(1))), Texts{});
  EXPECT_EQ(texts(team.placed(1, 2, at(1))), Texts{});
  EXPECT_EQ(texts(team.ready(77, at(1))), Texts{});
  EXPECT_EQ(texts(team.finished(77, at(1))), Texts{});
  EXPECT_EQ(texts(team.ended(77, kLost, at(1))), Texts{});
  EXPECT_EQ(texts(team.left(0, 9, Leaving::kTimeout, at(1))), Texts{});
  EXPECT_EQ(team.deadline(), TimePoint::max());
}

}  // namespace
}  // namespace tandem::cluster
