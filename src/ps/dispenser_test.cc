#include "ps/dispenser.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace tandem::ps {
namespace {

// What the worker gets when it asks and nobody else waits; nothing when it has to wait.
std::optional<Dispenser::Answer> ask(Dispenser& dispenser, int worker) {
  EXPECT_TRUE(dispenser.ask(worker).ok());
  const std::vector<Dispenser::Answer> answers = dispenser.take_answers();
  if (answers.empty()) return std::nullopt;
  EXPECT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].worker, worker);
  return answers[0];
}

std::int64_t task_for(Dispenser& dispenser, int worker) {
  const auto answer = ask(dispenser, worker);
  return answer ? answer->task : -2;
}

TEST(Dispenser, HandsOutEveryTaskOnceInOrder) {
  TaskTally tally;
  Dispenser dispenser({.from = 3, .to = 5, .lanes = 2}, {}, tally);
  for (std::int64_t task = 6; task < 10; ++task) {
    EXPECT_EQ(task_for(dispenser, 0), task);
    EXPECT_TRUE(dispenser.complete(0, task, 1.5, 4).ok());
  }
  EXPECT_EQ(task_for(dispenser, 0), -1);
  EXPECT_EQ(dispenser.end(), 5);
  EXPECT_EQ(tally.loss, 6);
  EXPECT_EQ(tally.samples, 16);
}

TEST(Dispenser, AFastWorkerGetsMoreThanASlowOne) {
  TaskTally tally;
  Dispenser dispenser({.to = 3, .lanes = 2}, {}, tally);
  EXPECT_EQ(task_for(dispenser, 7), 0);  // Is slow.
  for (std::int64_t task = 1; task < 6; ++task) {
    EXPECT_EQ(task_for(dispenser, 8), task);
    EXPECT_TRUE(dispenser.complete(8, task, 0, 1).ok());
  }
  EXPECT_EQ(dispenser.below(), 0);
}

TEST(Dispenser, AStretchIsOverOnceAllItsTasksAreComplete) {
  TaskTally tally;
  Dispenser dispenser({.to = 1, .lanes = 2}, {}, tally);
  EXPECT_EQ(task_for(dispenser, 0), 0);
  EXPECT_EQ(task_for(dispenser, 1), 1);
  EXPECT_TRUE(dispenser.complete(1, 1, 0, 1).ok());
  EXPECT_FALSE(ask(dispenser, 1).has_value());
  EXPECT_TRUE(dispenser.complete(0, 0, 0, 1).ok());
  EXPECT_TRUE(dispenser.ask(0).ok());
  const auto answers = dispenser.take_answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].worker, 1);
  EXPECT_EQ(answers[0].task, -1);
  EXPECT_EQ(answers[1].task, -1);
}

TEST(Dispenser, TasksThatWereDoneBeforeAreNotHandedOutAgain) {
  TaskTally tally;
  Dispenser dispenser({.from = 1, .to = 3, .lanes = 3}, {3, 5, 6, 99}, tally);
  EXPECT_EQ(dispenser.below(), 4);
  EXPECT_EQ(task_for(dispenser, 0), 4);
  EXPECT_EQ(task_for(dispenser, 1), 7);
  EXPECT_TRUE(dispenser.complete(0, 4, 0, 1).ok());
  EXPECT_EQ(dispenser.below(), 7);
}

TEST(Dispenser, EndsEarlyAtTheEndOfAStep) {
  TaskTally tally;
  Dispenser dispenser({.to = 100, .lanes = 3}, {}, tally);
  EXPECT_EQ(task_for(dispenser, 0), 0);
  dispenser.end_soon(2);
  EXPECT_EQ(dispenser.end(), 1);
  EXPECT_EQ(task_for(dispenser, 1), 1);
  EXPECT_EQ(task_for(dispenser, 2), 2);
  for (int worker = 0; worker < 3; ++worker)
    EXPECT_TRUE(dispenser.complete(worker, worker, 0, 1).ok());
  EXPECT_EQ(task_for(dispenser, 0), -1);
  EXPECT_EQ(dispenser.wish(), 2);
}

TEST(Dispenser, EndsAtOnceWhenNothingWasHandedOut) {
  TaskTally tally;
  Dispenser dispenser({.from = 5, .to = 9, .lanes = 3}, {}, tally);
  dispenser.end_soon(1);
  EXPECT_EQ(task_for(dispenser, 0), -1);
  EXPECT_EQ(dispenser.end(), 5);
}

TEST(Dispenser, DoesNotEndBeforeWhatOthersHadBegun) {
  TaskTally tally;
  Dispenser dispenser({.to = 100, .lanes = 2, .begun = 7}, {0, 1, 3}, tally);
  dispenser.end_soon(1);
  EXPECT_EQ(dispenser.end(), 4);
  EXPECT_EQ(task_for(dispenser, 0), 2);
}

TEST(Dispenser, ABoundKeepsFastWorkersWaitingForSlowOnes) {
  TaskTally tally;
  Dispenser dispenser({.to = 9, .lanes = 1, .staleness = 2}, {}, tally);
  EXPECT_EQ(task_for(dispenser, 0), 0);
  EXPECT_EQ(task_for(dispenser, 1), 1);
  EXPECT_TRUE(dispenser.complete(1, 1, 0, 1).ok());
  EXPECT_EQ(task_for(dispenser, 1), 2);
  EXPECT_TRUE(dispenser.complete(1, 2, 0, 1).ok());
  EXPECT_FALSE(ask(dispenser, 1).has_value());
  EXPECT_TRUE(dispenser.complete(0, 0, 0, 1).ok());
  const auto answers = dispenser.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].task, 3);
  EXPECT_TRUE(answers[0].pull);  // What it has may lack task 0.
}

TEST(Dispenser, RefusesTasksThatAWorkerDoesNotHave) {
  TaskTally tally;
  Dispenser dispenser({.to = 9}, {}, tally);
  EXPECT_FALSE(dispenser.complete(0, 0, 0, 1).ok());
  EXPECT_EQ(task_for(dispenser, 0), 0);
  EXPECT_FALSE(dispenser.complete(0, 1, 0, 1).ok());
  EXPECT_FALSE(dispenser.complete(1, 0, 0, 1).ok());
  EXPECT_FALSE(dispenser.ask(0).ok());
  EXPECT_TRUE(dispenser.complete(0, 0, 0, 1).ok());
  EXPECT_FALSE(dispenser.complete(0, 0, 0, 1).ok());
}

TEST(Dispenser, AQuorumClosesAStepAndDropsTheRest) {
  TaskTally tally;
  Dispenser dispenser({.to = 3, .lanes = 3, .quorum = 2}, {}, tally);
  for (int worker = 0; worker < 3; ++worker) EXPECT_EQ(task_for(dispenser, worker), worker);
  EXPECT_TRUE(dispenser.complete(2, 2, 5, 4).ok());
  EXPECT_FALSE(ask(dispenser, 2).has_value());  // Nothing is left of step 0.
  EXPECT_TRUE(dispenser.complete(0, 0, 7, 4).ok());
  EXPECT_TRUE(dispenser.ask(0).ok());
  const auto answers = dispenser.take_answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].task, 3);
  EXPECT_TRUE(answers[0].closes && answers[0].pull && answers[1].closes);
  ASSERT_TRUE(dispenser.closed().has_value());
  EXPECT_EQ(dispenser.closed()->step, 0);
  EXPECT_EQ(dispenser.closed()->lanes, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(tally.dropped, std::vector<std::int64_t>{1});
  // The one that is late learns of it and goes on where the others are.
  EXPECT_TRUE(dispenser.complete(1, 1, 100, 4).ok());
  const auto late = ask(dispenser, 1);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->task, 5);
  EXPECT_TRUE(late->closes);
  EXPECT_EQ(tally.loss, 12);
}

TEST(Dispenser, TheLastStepOfAQuorumIsClosedForAll) {
  TaskTally tally;
  Dispenser dispenser({.to = 1, .lanes = 2, .quorum = 1}, {}, tally);
  EXPECT_EQ(task_for(dispenser, 0), 0);
  EXPECT_EQ(task_for(dispenser, 1), 1);
  EXPECT_TRUE(dispenser.complete(0, 0, 0, 1).ok());
  auto end = ask(dispenser, 0);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->task == -1 && end->closes);
  EXPECT_TRUE(dispenser.complete(1, 1, 0, 1).ok());
  end = ask(dispenser, 1);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->task == -1 && end->closes);
}

// Workers of very different speed in random order: all is done once, and nobody's parameters are
// further behind than the bound allows, which is counted by the rule itself and not as the
// dispenser does.
TEST(Dispenser, HoldsItsBoundInRandomOrders) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng({seed});
    const auto lanes = static_cast<std::int64_t>(1 + rng.below(4));
    const auto bound = static_cast<std::int64_t>(rng.below(4));
    const auto workers = static_cast<int>(1 + rng.below(5));
    const std::int64_t steps = 12;
    TaskTally tally;
    Dispenser dispenser({.to = steps, .lanes = lanes, .staleness = bound}, {}, tally);
    std::map<int, std::int64_t> tasks;             // By worker.
    std::map<int, std::set<std::int64_t>> pulled;  // What a worker's parameters have for sure,
    std::map<int, std::set<std::int64_t>> coming;  // and what they will after its task.
    std::set<std::int64_t> complete;
    std::set<int> ended;
    for (int worker = 0; worker < workers; ++worker) ASSERT_TRUE(dispenser.ask(worker).ok());
    while (std::ssize(ended) < workers) {
      for (const auto& answer : dispenser.take_answers()) {
        if (answer.task < 0) {
          ended.insert(answer.worker);
          continue;
        }
        if (answer.pull) pulled[answer.worker] = complete;
        for (std::int64_t task = 0; task < (answer.task / lanes - bound) * lanes; ++task)
          ASSERT_TRUE(pulled[answer.worker].contains(task)) << "seed " << seed;
        tasks[answer.worker] = answer.task;
        coming[answer.worker] = complete;
      }
      if (tasks.empty()) continue;
      auto chosen = tasks.begin();
      std::advance(chosen, static_cast<std::ptrdiff_t>(rng.below(tasks.size())));
      const auto [worker, task] = *chosen;
      tasks.erase(chosen);
      ASSERT_TRUE(complete.insert(task).second);
      pulled[worker] = coming[worker];
      ASSERT_TRUE(dispenser.complete(worker, task, 1, 1).ok());
      ASSERT_TRUE(dispenser.ask(worker).ok());
    }
    EXPECT_EQ(std::ssize(complete), steps * lanes);
    EXPECT_LE(std::ssize(tally.staleness.by_number()), bound + 1);
  }
}

}  // namespace
}  // namespace tandem::ps
