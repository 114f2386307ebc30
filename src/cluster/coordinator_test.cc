#include "cluster/coordinator.h"

#include <gtest/gtest.h>

#include "cluster/team_testing.h"

namespace tandem::cluster {
namespace {

const Ending kLost{Ending::Kind::kLost, "was killed"};

TimePoint at(int ms) {
  return TimePoint{} + std::chrono::milliseconds(ms);
}

JobPlan plan(int least, int asked, int most, int priority = 0) {
  JobPlan made;
  made.team.wanted = asked;
  made.team.least = least;
  made.most = most;
  made.priority = priority;
  return made;
}

// The workers are there and have made their first step in the generation.
void train(Coordinator& coordinator, JobId job, std::initializer_list<int> workers) {
  for (const int worker : workers) (void)coordinator.ready(job, worker, at(0));
  for (const int worker : workers)
    (void)coordinator.placed(job, worker, coordinator.team(job)->generation(), at(0));
}

TEST(Coordinator, SpreadsWorkersOverTheNodesWithMostFreeSlots) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 1, at(0));
  (void)coordinator.node_up(2, 3, at(0));
  EXPECT_EQ(texts(coordinator.submit(7, plan(1, 3, 3), at(0))),
            (Texts{"job 7: start 0 on 2", "job 7: start 1 on 2", "job 7: start 2 on 1"}));
  EXPECT_EQ(coordinator.used_slots(2), 2);
  EXPECT_EQ(coordinator.slots(2), 3);
  EXPECT_EQ(coordinator.node_of(7, 2), 1);
}

TEST(Coordinator, GivesEachTheLeastThenWhatItAskedForThenTheMost) {
  Coordinator coordinator;
  (void)coordinator.submit(1, plan(1, 2, 5), at(0));
  (void)coordinator.submit(2, plan(1, 2, 5), at(0));
  (void)coordinator.node_up(1, 2, at(0));
  const auto sizes = [&] {
    return std::pair(coordinator.team(1)->wanted(), coordinator.team(2)->wanted());
  };
  EXPECT_EQ(sizes(), std::pair(1, 1));
  (void)coordinator.node_up(2, 2, at(1));
  EXPECT_EQ(sizes(), std::pair(2, 2));
  (void)coordinator.node_up(3, 4, at(2));
  EXPECT_EQ(sizes(), std::pair(5, 3));
}

TEST(Coordinator, TheQueueIsByPriorityAndThenInTheOrderOfComing) {
  Coordinator coordinator;
  (void)coordinator.submit(1, plan(2, 2, 2, 0), at(0));
  (void)coordinator.submit(2, plan(2, 2, 2, 0), at(0));
  (void)coordinator.submit(3, plan(2, 2, 2, 5), at(0));
  EXPECT_EQ(coordinator.place_in_queue(3), 1);
  EXPECT_EQ(coordinator.place_in_queue(1), 2);
  EXPECT_EQ(coordinator.place_in_queue(2), 3);
  EXPECT_EQ(coordinator.team(3), nullptr);
  EXPECT_EQ(texts(coordinator.node_up(1, 2, at(1))),
            (Texts{"job 3: start 0 on 1", "job 3: start 1 on 1"}));
  EXPECT_EQ(coordinator.place_in_queue(1), 1);
  EXPECT_EQ(coordinator.place_in_queue(3), std::nullopt);
}

// A job of all four slots behind three small ones; another small one comes every two minutes, just
// before the oldest that runs has ended. Returns in which minute the large one began.
std::optional<int> minute_in_which_the_large_one_begins(int priority_of_small) {
  constexpr int kMinute = 60'000;
  constexpr JobId kLarge = 100;
  Coordinator coordinator;
  (void)coordinator.node_up(1, 4, at(0));
  for (const JobId small : {1, 2, 3}) (void)coordinator.submit(small, plan(1, 1, 1), at(0));
  (void)coordinator.submit(kLarge, plan(4, 4, 4), at(0));
  JobId next = kLarge + 1;
  for (int minute = 2; minute < 60; minute += 2) {
    (void)coordinator.submit(next++, plan(1, 1, 1, priority_of_small), at(minute * kMinute));
    if (coordinator.team(kLarge) != nullptr) return minute;
    JobId oldest = 1;
    while (oldest < next && coordinator.team(oldest) == nullptr) ++oldest;
    (void)coordinator.finished(oldest, 0, at(minute * kMinute + 1));
    (void)coordinator.ended(oldest, 0, {Ending::Kind::kFinished, ""}, at(minute * kMinute + 1));
  }
  return std::nullopt;
}

TEST(Coordinator, SmallJobsOvertakeALargeOneForSomeMinutesOnly) {
  const auto minute = minute_in_which_the_large_one_begins(0);
  ASSERT_TRUE(minute.has_value());
  EXPECT_GT(*minute, 5);
  EXPECT_LT(*minute, 20);
}

TEST(Coordinator, JobsOfALargerPriorityMayAlwaysOvertake) {
  EXPECT_EQ(minute_in_which_the_large_one_begins(1), std::nullopt);
}

TEST(Coordinator, NobodyWaitsForAJobThatTheClusterCannotHold) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.submit(1, plan(3, 3, 3), at(0));
  EXPECT_EQ(texts(coordinator.submit(2, plan(1, 1, 1), at(3'600'000))),
            Texts{"job 2: start 0 on 1"});
}

TEST(Coordinator, SaysWhyAJobWaits) {
  Coordinator coordinator;
  (void)coordinator.submit(1, plan(1, 1, 1), at(0));
  EXPECT_EQ(coordinator.why_it_waits(1), "needs 1 slot, the cluster has no node");
  (void)coordinator.node_up(1, 2, at(0));
  EXPECT_EQ(coordinator.why_it_waits(1), "");
  (void)coordinator.submit(2, plan(4, 4, 4), at(0));
  EXPECT_EQ(coordinator.why_it_waits(2), "needs 4 slots, the cluster has 2");
  (void)coordinator.submit(3, plan(2, 2, 2), at(0));
  EXPECT_EQ(coordinator.why_it_waits(3),
            "needs 2 slots, and 1 of 2 cannot be taken from jobs that run");
  (void)coordinator.submit(4, plan(1, 1, 1), at(600'000));
  EXPECT_EQ(coordinator.why_it_waits(4), "jobs that came before it go first");
  EXPECT_EQ(coordinator.why_it_waits(9), "");
}

TEST(Coordinator, AnswersWhereTheWorkerIsThatAsked) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 1, at(0));
  (void)coordinator.node_up(2, 1, at(0));
  (void)coordinator.submit(1, plan(1, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  for (const int worker : {0, 1}) {
    EXPECT_EQ(texts(coordinator.asked(1, worker, 7, {.step = 9, .steps = 9}, at(1))),
              Texts{fmt::format("job 1: answer 7 of {}: end on {}", worker,
                                *coordinator.node_of(1, worker))});
  }
  EXPECT_EQ(texts(coordinator.asked(1, 5, 7, {.step = 9, .steps = 9}, at(1))), Texts{});
}

TEST(Coordinator, WorkersThatWereStartedAreNotMissed) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.submit(1, plan(1, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  (void)coordinator.node_down(1, "was lost", at(1));
  (void)coordinator.node_up(2, 2, at(2));
  (void)coordinator.tick(at(60'000));
  ASSERT_EQ(coordinator.workers_of(1).size(), 2U);
  EXPECT_EQ(coordinator.why_it_waits(1), "needs 1 worker, 2 are started and not ready yet");
  for (const int worker : coordinator.workers_of(1)) (void)coordinator.ready(1, worker, at(60'001));
  EXPECT_EQ(coordinator.why_it_waits(1), "");
}

TEST(Coordinator, AJobThatIsCancelledInTheQueueEndsAtOnce) {
  Coordinator coordinator;
  (void)coordinator.submit(1, plan(1, 1, 1), at(0));
  EXPECT_EQ(texts(coordinator.cancel(1, at(1))), Texts{"job 1: end cancelled"});
  EXPECT_EQ(texts(coordinator.cancel(1, at(2))), Texts{});
  EXPECT_EQ(texts(coordinator.node_up(1, 1, at(3))), Texts{});
}

TEST(Coordinator, ARunningJobShrinksForAnother) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.submit(1, plan(1, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  EXPECT_EQ(texts(coordinator.submit(2, plan(1, 1, 1), at(1))),
            Texts{"job 1: place 0 in 2 as 0/1 on 1"});
  EXPECT_EQ(texts(coordinator.left(1, 1, 1, Leaving::kAgreed, at(2))), Texts{"job 1: ask 1 on 1"});
  EXPECT_EQ(texts(coordinator.ended(1, 1, kLost, at(3))), Texts{"job 2: start 0 on 1"});
}

TEST(Coordinator, ARunningJobIsNotStoppedForAMoreImportantOne) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.submit(1, plan(2, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  EXPECT_EQ(texts(coordinator.submit(2, plan(1, 1, 1, 9), at(1))), Texts{});
  EXPECT_EQ(coordinator.place_in_queue(2), 1);
  EXPECT_EQ(coordinator.team(1)->wanted(), 2);
}

TEST(Coordinator, TwoJobsThatWaitDoNotBlockEachOther) {
  Coordinator coordinator;
  for (NodeId node = 1; node <= 4; ++node) (void)coordinator.node_up(node, 1, at(0));
  (void)coordinator.submit(1, plan(2, 2, 2), at(0));
  (void)coordinator.submit(2, plan(2, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  train(coordinator, 2, {0, 1});
  (void)coordinator.node_down(*coordinator.node_of(1, 1), "gone", at(1));
  (void)coordinator.node_down(*coordinator.node_of(2, 1), "gone", at(1));
  EXPECT_EQ(coordinator.team(1)->wanted(), 2);
  EXPECT_EQ(coordinator.team(2)->wanted(), 0);
  (void)coordinator.left(2, 0, 1, Leaving::kPeerLost, at(2));
  EXPECT_EQ(texts(coordinator.ended(2, 0, kLost, at(3))), Texts{"job 1: start 2 on 3"});
}

TEST(Coordinator, ALostNodeTakesItsWorkersAndSparesTheOthers) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.node_up(2, 2, at(0));
  (void)coordinator.submit(1, plan(1, 4, 4), at(0));
  train(coordinator, 1, {0, 1, 2, 3});
  EXPECT_EQ(texts(coordinator.node_down(1, "gone", at(1))),
            (Texts{"job 1: place 1 in 2 as 0/2 on 2", "job 1: place 3 in 2 as 1/2 on 2"}));
  EXPECT_EQ(texts(coordinator.node_up(1, 2, at(2))),
            (Texts{"job 1: start 4 on 1", "job 1: start 5 on 1"}));
}

TEST(Coordinator, ALostNodeCountsForAllItsJobs) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.node_up(2, 2, at(0));
  (void)coordinator.submit(1, plan(1, 2, 2), at(0));
  (void)coordinator.submit(2, plan(1, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  train(coordinator, 2, {0, 1});
  EXPECT_EQ(texts(coordinator.node_down(1, "gone", at(1))),
            (Texts{"job 1: place 1 in 2 as 0/1 on 2", "job 2: place 1 in 2 as 0/1 on 2"}));
}

TEST(Coordinator, AJobWaitsWhenItsSlotsVanishAndGoesOnWhenTheyReturn) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 1, at(0));
  (void)coordinator.submit(1, plan(1, 1, 1), at(0));
  train(coordinator, 1, {0});
  EXPECT_EQ(texts(coordinator.node_down(1, "gone", at(1))), Texts{});
  EXPECT_TRUE(coordinator.team(1)->is_waiting());
  EXPECT_EQ(texts(coordinator.node_up(1, 1, at(2))), Texts{"job 1: start 1 on 1"});
  EXPECT_EQ(texts(coordinator.ready(1, 1, at(3))), Texts{"job 1: place 1 in 2 as 0/1 anew on 1"});
}

// It was started after it had been told to end, which nobody told it again.
TEST(Coordinator, AWorkerThatIsNoLongerWantedIsNeverStarted) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 1, at(0));
  (void)coordinator.node_up(2, 1, at(0));
  (void)coordinator.submit(1, plan(1, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  (void)coordinator.left(1, 0, 1, Leaving::kTimeout, at(0));
  // Worker 1 is killed; worker 2 waits for its slot.
  EXPECT_EQ(texts(coordinator.tick(at(2000))),
            (Texts{"job 1: kill 1 on 2", "job 1: place 0 in 2 as 0/1 on 1"}));
  EXPECT_EQ(texts(coordinator.resize(1, 1, at(2001))), Texts{});
  EXPECT_EQ(texts(coordinator.ended(1, 1, kLost, at(2002))), Texts{});
  EXPECT_EQ(coordinator.team(1)->alive(), 1);
}

TEST(Coordinator, AJobIsNeverMadeSmallerThanItCanRun) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 4, at(0));
  (void)coordinator.submit(1, plan(2, 4, 4), at(0));
  train(coordinator, 1, {0, 1, 2, 3});
  EXPECT_EQ(texts(coordinator.resize(1, 1, at(1))),
            (Texts{"job 1: place 0 in 2 as 0/2 on 1", "job 1: place 1 in 2 as 1/2 on 1"}));
}

TEST(Coordinator, ResizeRaisesAlsoTheMost) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 4, at(0));
  (void)coordinator.submit(1, plan(1, 1, 1), at(0));
  EXPECT_EQ(texts(coordinator.resize(1, 2, at(1))), Texts{"job 1: start 1 on 1"});
}

TEST(Coordinator, IgnoresJobsAndWorkersThatItDoesNotKnow) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 1, at(0));
  (void)coordinator.submit(1, plan(1, 1, 1), at(0));
  train(coordinator, 1, {0});
  EXPECT_EQ(texts(coordinator.ready(9, 0, at(1))), Texts{});
  EXPECT_EQ(texts(coordinator.ready(1, 9, at(1))), Texts{});
  EXPECT_EQ(texts(coordinator.finished(1, 9, at(1))), Texts{});
  EXPECT_EQ(texts(coordinator.ended(1, 9, kLost, at(1))), Texts{});
  EXPECT_EQ(texts(coordinator.resize(9, 1, at(1))), Texts{});
  EXPECT_EQ(texts(coordinator.node_down(9, "gone", at(1))), Texts{});
  EXPECT_EQ(coordinator.team(9), nullptr);
}

// What a replacement that has no slot yet says comes from nowhere.
TEST(Coordinator, AWorkerWithoutASlotHasNothingToSay) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 2, at(0));
  (void)coordinator.submit(1, plan(1, 2, 2), at(0));
  train(coordinator, 1, {0, 1});
  (void)coordinator.left(1, 0, 1, Leaving::kTimeout, at(0));
  (void)coordinator.tick(at(2000));
  (void)coordinator.placed(1, 0, 2, at(2001));
  EXPECT_EQ(texts(coordinator.ready(1, 2, at(2002))), Texts{});
}

TEST(Coordinator, TheEndOfAJobGivesItsSlotsToTheNext) {
  Coordinator coordinator;
  (void)coordinator.node_up(1, 1, at(0));
  (void)coordinator.submit(1, plan(1, 1, 1), at(0));
  (void)coordinator.submit(2, plan(1, 1, 1), at(0));
  train(coordinator, 1, {0});
  (void)coordinator.finished(1, 0, at(1));
  EXPECT_EQ(texts(coordinator.ended(1, 0, {Ending::Kind::kFinished, ""}, at(2))),
            (Texts{"job 1: end finished", "job 2: start 0 on 1"}));
  EXPECT_EQ(coordinator.team(1), nullptr);
  EXPECT_EQ(coordinator.deadline(), TimePoint::max());
}

}  // namespace
}  // namespace tandem::cluster
