// How a job's workers become more or fewer, and how the job ends.
#include <gtest/gtest.h>

#include "cluster/team.h"
#include "cluster/team_testing.h"

namespace tandem::cluster {
namespace {

const Ending kLost{Ending::Kind::kLost, "was killed"};
const Ending kFinished{Ending::Kind::kFinished, ""};

TimePoint at(int ms) {
  return TimePoint{} + std::chrono::milliseconds(ms);
}

Team trained(int wanted, int least = 1) {
  TeamConfig config;
  config.wanted = wanted;
  config.least = least;
  Team team(config);
  (void)team.begin(at(0));
  for (int worker = 0; worker < wanted; ++worker) (void)team.ready(worker, at(0));
  for (int worker = 0; worker < wanted; ++worker) (void)team.placed(worker, 1, at(0));
  return team;
}

TEST(TeamResize, MoreAreStartedAndJoinWhenTheyAreReady) {
  Team team = trained(1);
  EXPECT_EQ(texts(team.resize(2, at(0))), Texts{"start 1"});
  EXPECT_EQ(texts(team.ready(1, at(9))), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
}

TEST(TeamResize, WhoShallGoIsAskedOnlyOnceItHasLeft) {
  Team team = trained(3);
  EXPECT_EQ(texts(team.resize(2, at(0))), (Texts{"place 0 in 2 as 0/2", "place 1 in 2 as 1/2"}));
  EXPECT_TRUE(team.wants(2));
  EXPECT_EQ(texts(team.placed(0, 2, at(1))), Texts{});
  EXPECT_EQ(texts(team.left(2, 1, Leaving::kAgreed, at(2))), Texts{"ask 2"});
  EXPECT_FALSE(team.wants(2));
  const TeamActions actions = team.ended(2, kLost, at(3));
  EXPECT_EQ(texts(actions), Texts{});
  EXPECT_EQ(told(actions, "lost"), Texts{});
}

// It left the one before; asked now, it would end the training of all.
TEST(TeamResize, WhoHasANewerPlaceIsNotAskedForAnOldLeave) {
  Team team = trained(2);
  (void)team.resize(3, at(0));
  (void)team.ready(2, at(1));
  (void)team.resize(1, at(2));
  EXPECT_EQ(texts(team.left(1, 1, Leaving::kAgreed, at(3))), Texts{});
  (void)team.placed(0, 2, at(4));
  EXPECT_EQ(texts(team.left(1, 2, Leaving::kAgreed, at(5))), Texts{"ask 1"});
}

TEST(TeamResize, AMemberThatWasToGoStaysWhenAnotherIsLost) {
  Team team = trained(3);
  (void)team.resize(4, at(0));
  (void)team.ready(3, at(0));
  (void)team.resize(3, at(1));
  EXPECT_EQ(texts(team.ended(0, kLost, at(2))),
            (Texts{"place 1 in 3 as 0/3", "place 2 in 3 as 1/3", "place 3 in 3 as 2/3"}));
}

// It has an older state than those that went on without it.
TEST(TeamResize, WhoWasLeftBehindDoesNotComeBack) {
  Team team = trained(2);
  (void)team.resize(1, at(0));
  EXPECT_EQ(texts(team.resize(2, at(1))), Texts{"start 2"});
  EXPECT_EQ(texts(team.left(1, 1, Leaving::kAgreed, at(2))), Texts{"ask 1"});
}

TEST(TeamResize, MembersStayAndThoseThatOnlyCameGo) {
  Team team = trained(2);
  (void)team.ended(1, kLost, at(0));
  (void)team.ended(0, kLost, at(0));
  (void)team.tick(at(250));
  EXPECT_EQ(texts(team.ready(3, at(300))), Texts{"place 3 in 3 as 0/1 anew"});
  (void)team.ready(2, at(300));
  EXPECT_EQ(texts(team.resize(1, at(301))), Texts{"ask 2"});
  EXPECT_EQ(texts(team.placed(3, 3, at(400))), Texts{});
}

TEST(TeamResize, WithFewerThanTheLeastThoseThatTrainGoOn) {
  Team team = trained(3, 2);
  const TeamActions actions = team.resize(1, at(0));
  EXPECT_EQ(texts(actions), Texts{});
  EXPECT_FALSE(team.is_waiting());
  EXPECT_EQ(told(team.ended(0, kLost, at(1)), "waiting").size(), 1U);
}

TEST(TeamFinish, TheJobIsOverWhenAllHaveEnded) {
  Team team = trained(2);
  (void)team.finished(0, at(0));
  (void)team.finished(1, at(0));
  EXPECT_EQ(texts(team.ended(1, kFinished, at(1))), Texts{});
  EXPECT_EQ(texts(team.ended(0, kFinished, at(1))), Texts{"end finished"});
  EXPECT_EQ(team.deadline(), TimePoint::max());
}

TEST(TeamFinish, WhenOneHasFinishedALostOneIsNotReplaced) {
  Team team = trained(2, 2);
  (void)team.finished(0, at(0));
  EXPECT_EQ(texts(team.ended(1, kLost, at(0))), Texts{});
  EXPECT_EQ(texts(team.ended(0, kFinished, at(1))), Texts{"end finished"});
}

// With fewer than the least it waited for ever; alone it would do again what is done.
TEST(TeamFinish, WhoLeavesAfterAnotherHasFinishedIsOfNoMoreUse) {
  Team team = trained(3, 2);
  (void)team.finished(0, at(0));
  (void)team.ended(2, kLost, at(0));
  EXPECT_EQ(texts(team.left(1, 1, Leaving::kPeerLost, at(1))), Texts{"kill 1"});
  (void)team.ended(1, kLost, at(2));
  EXPECT_EQ(texts(team.ended(0, kFinished, at(3))), Texts{"end finished"});
}

TEST(TeamFinish, WhoStillWaitsForOneThatHasFinishedIsKilled) {
  Team team = trained(1);
  (void)team.resize(2, at(0));
  (void)team.ready(1, at(0));
  (void)team.finished(0, at(1));
  EXPECT_EQ(texts(team.ended(0, kFinished, at(2))), Texts{});
  EXPECT_EQ(team.deadline(), at(2001));
  EXPECT_EQ(texts(team.tick(at(2001))), Texts{"kill 1"});
  EXPECT_EQ(texts(team.ended(1, kLost, at(2002))), Texts{"end finished"});
}

TEST(TeamFinish, NewcomersAreKilledWhenOneHasFinished) {
  Team team = trained(1);
  (void)team.resize(2, at(0));
  EXPECT_EQ(texts(team.finished(0, at(1))), Texts{"kill 1"});
}

TEST(TeamCancel, BeforeAnyGenerationAllAreAskedAndThatIsAll) {
  Team team(TeamConfig{.wanted = 2});
  (void)team.begin(at(0));
  (void)team.ready(0, at(0));
  EXPECT_EQ(texts(team.cancel(at(1))), (Texts{"ask 0", "ask 1"}));
  EXPECT_EQ(texts(team.ready(1, at(2))), Texts{});
  (void)team.ended(0, kLost, at(3));
  EXPECT_EQ(texts(team.ended(1, kLost, at(3))), Texts{"end cancelled"});
}

TEST(TeamCancel, ThoseThatTrainFinishTogether) {
  Team team = trained(2);
  EXPECT_EQ(texts(team.cancel(at(1))), (Texts{"ask 0", "ask 1"}));
  (void)team.finished(0, at(2));
  (void)team.finished(1, at(2));
  (void)team.ended(0, kFinished, at(2));
  EXPECT_EQ(texts(team.ended(1, kFinished, at(3))), Texts{"end cancelled"});
}

TEST(TeamCancel, SurvivorsMeetOnceMoreToSaveWhatTheyHave) {
  Team team = trained(3, 3);
  (void)team.cancel(at(1));
  EXPECT_EQ(texts(team.ended(1, kLost, at(2))),
            (Texts{"place 0 in 2 as 0/2", "place 2 in 2 as 1/2"}));
}

TEST(TeamCancel, AlsoWhenTheyWaitedForMore) {
  Team team = trained(2, 2);
  (void)team.ended(1, kLost, at(0));
  EXPECT_TRUE(team.is_waiting());
  EXPECT_EQ(texts(team.cancel(at(1))), (Texts{"ask 0", "ask 2", "place 0 in 2 as 0/1"}));
}

TEST(TeamCancel, TheSecondTimeKills) {
  Team team = trained(2);
  (void)team.cancel(at(1));
  EXPECT_EQ(texts(team.cancel(at(2))), (Texts{"kill 0", "kill 1"}));
}

TEST(TeamCancel, ThePauseBeforeAReplacementIsForgotten) {
  Team team = trained(2);
  (void)team.ended(1, kLost, at(0));
  (void)team.ended(2, kLost, at(0));
  EXPECT_EQ(team.deadline(), at(250));
  (void)team.cancel(at(1));
  EXPECT_EQ(team.deadline(), TimePoint::max());
}

TEST(TeamCancel, AJobThatHasFailedStaysFailed) {
  Team team = trained(2);
  (void)team.ended(0, {Ending::Kind::kFailed, ""}, at(0));
  EXPECT_EQ(texts(team.cancel(at(1))), Texts{});
  EXPECT_EQ(texts(team.ended(1, kLost, at(2))), Texts{"end failed 0"});
}

TEST(TeamCancel, WithoutAnyWorkerTheJobEndsAtOnce) {
  Team team = trained(1);
  (void)team.ended({0}, kLost, 0, at(0));
  EXPECT_TRUE(team.is_waiting());
  EXPECT_EQ(texts(team.cancel(at(1))), Texts{"end cancelled"});
}

}  // namespace
}  // namespace tandem::cluster
