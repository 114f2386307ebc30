#include "converge/judge.h"

#include <gtest/gtest.h>

namespace tandem::converge {
namespace {

// A training that asks after each evaluation, as workers do, and takes its memory with it.
class Asker {
 public:
  explicit Asker(Criteria criteria) : criteria_(std::move(criteria)) {}

  // Whether it has converged.
  bool observe(const Measured& measured) {
    verdict_ = judge(criteria_, {++step_, kSteps, verdict_.memory, measured});
    return verdict_.ending == Ending::kConverged;
  }
  bool observe_loss(double loss) { return observe({loss, {}, {}}); }
  const Verdict& verdict() const { return verdict_; }

  static constexpr std::int64_t kSteps = 1000;

 private:
  const Criteria criteria_;
  std::int64_t step_ = 0;
  Verdict verdict_;
};

TEST(Judge, WaitsForItsPatienceAndStartsAnewAtEachBest) {
  Asker asker({.patience = 2});
  EXPECT_FALSE(asker.observe_loss(1.0));
  EXPECT_FALSE(asker.observe_loss(1.1));
  EXPECT_FALSE(asker.observe_loss(0.9));
  EXPECT_FALSE(asker.observe_loss(0.9));
  EXPECT_TRUE(asker.observe_loss(0.95));
  EXPECT_EQ(asker.verdict().reason, "loss did not get better than 0.9 in 2 evaluations");
}

TEST(Judge, CountsGainsBelowTheMinimumAsNone) {
  Asker asker({.patience = 1, .metric = "accuracy", .min_delta = 0.01});
  EXPECT_FALSE(asker.observe({0, 0.90, {}}));
  EXPECT_FALSE(asker.observe({0, 0.92, {}}));
  EXPECT_TRUE(asker.observe({0, 0.925, {}}));
}

TEST(Judge, EndsNothingEarlyWithoutCriteria) {
  EXPECT_FALSE(Criteria().any());
  Asker asker({});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(asker.observe({double(i), 1, 0}));
}

TEST(Judge, EndsAtItsTarget) {
  Asker by_loss({.target = 0.5});
  EXPECT_FALSE(by_loss.observe_loss(0.6));
  EXPECT_TRUE(by_loss.observe_loss(0.5));
  Asker by_accuracy({.metric = "accuracy", .target = 0.5});
  EXPECT_FALSE(by_accuracy.observe({0.1, 0.49, {}}));
  EXPECT_TRUE(by_accuracy.observe({0.1, 0.51, {}}));
}

TEST(Judge, EndsWhenTheLossHardlyChanges) {
  Asker asker({.change = 0.01});
  EXPECT_FALSE(asker.observe_loss(1.0));
  EXPECT_FALSE(asker.observe_loss(0.9));
  EXPECT_FALSE(asker.observe_loss(1.0));
  EXPECT_TRUE(asker.observe_loss(0.995));
}

TEST(Judge, EndsWhenTheModelsOfTheNodesAgree) {
  Asker asker({.divergence = 0.1});
  EXPECT_FALSE(asker.observe_loss(1.0)) << "nobody has compared them";
  EXPECT_FALSE(asker.observe({1.0, {}, 0.2}));
  EXPECT_TRUE(asker.observe({1.0, {}, 0.1}));
  EXPECT_EQ(asker.verdict().reason, "the nodes' models differ by 0.1, by at most 0.1");
}

TEST(Judge, EndsAfterTheLastStepWithOrWithoutAnEvaluation) {
  EXPECT_EQ(judge({}, {9, 10, {}, {}}).ending, Ending::kNone);
  const Verdict last = judge({}, {10, 10, {}, {}});
  EXPECT_EQ(last.ending, Ending::kFinished);
  EXPECT_EQ(last.reason, "10 steps done");
  EXPECT_EQ(judge({}, {1, 1, {}, {}}).reason, "1 step done");
  EXPECT_EQ(judge({}, {10, 10, {}, Measured{}}).ending, Ending::kFinished);
  EXPECT_EQ(judge({.target = 0.5}, {10, 10, {}, Measured{0.4, {}, {}}}).ending, Ending::kConverged)
      << "why the last step is enough is worth more than that it was the last";
}

TEST(Judge, SaysTheSameAgainWhenAskedAgain) {
  const Criteria criteria{.patience = 1, .target = 0.5, .change = 0.01};
  const Question question{5, 10, {.best = -0.6, .loss = 0.6}, Measured{0.4, {}, {}}};
  const Verdict first = judge(criteria, question), second = judge(criteria, question);
  EXPECT_EQ(first.memory, second.memory);
  EXPECT_EQ(first.reason, second.reason);
  // Nor does it need the evaluation once it is in the memory, as after a restart.
  const Verdict later = judge(criteria, {5, 10, first.memory, {}});
  EXPECT_EQ(later.ending, Ending::kConverged);
  EXPECT_EQ(later.reason, first.reason);
  EXPECT_EQ(later.memory, first.memory);
}

TEST(Judge, TakesItsCriteriaFromTheJob) {
  job::Train train;
  EXPECT_FALSE(criteria_of(train).any());
  train.early_stop_patience = 3;
  train.early_stop_metric = "accuracy";
  train.early_stop_min_delta = 0.1;
  train.early_stop_target = 0.9;
  train.early_stop_change = 0.2;
  const Criteria criteria = criteria_of(train);
  EXPECT_TRUE(criteria.any());
  EXPECT_EQ(criteria.patience, 3);
  EXPECT_EQ(criteria.metric, "accuracy");
  EXPECT_EQ(criteria.min_delta, 0.1);
  EXPECT_EQ(criteria.target, 0.9);
  EXPECT_EQ(criteria.change, 0.2);
}

}  // namespace
}  // namespace tandem::converge
