// When a team's training ends, as its master decides it.
#include <gtest/gtest.h>

#include "cluster/team.h"
#include "cluster/team_testing.h"

namespace tandem::cluster {
namespace {

const TimePoint kNow{};

// One worker that trains, until the loss is 0.1.
class TeamCourse : public ::testing::Test {
 protected:
  void SetUp() override {
    (void)team_.begin(kNow);
    (void)team_.ready(0, kNow);
    (void)team_.placed(0, 1, kNow);
  }

  static TeamConfig config() {
    TeamConfig config;
    config.criteria.target = 0.1;
    return config;
  }

  static converge::Question after(std::int64_t step, double loss) {
    converge::Question question;
    question.step = step;
    question.steps = 100;
    question.measured = converge::Measured{loss, {}, {}};
    return question;
  }

  Team team_{config()};
};

TEST_F(TeamCourse, GoesOnUntilTheModelIsGoodEnough) {
  EXPECT_EQ(texts(team_.asked(0, 1, after(10, 0.5))), Texts{"answer 1 of 0: go on"});
  EXPECT_EQ(texts(team_.asked(0, 2, after(20, 0.05))), Texts{"answer 2 of 0: end"});
}

TEST_F(TeamCourse, EndsAfterTheLastStep) {
  converge::Question question;
  question.step = question.steps = 100;
  const TeamActions actions = team_.asked(0, 1, question);
  EXPECT_EQ(texts(actions), Texts{"answer 1 of 0: end"});
  EXPECT_EQ(told(actions, "early_stop"), Texts{});
}

TEST_F(TeamCourse, TellsOnceWhyTrainingEndsEarly) {
  EXPECT_EQ(told(team_.asked(0, 1, after(20, 0.05)), "early_stop").size(), 1U);
  const TeamActions again = team_.asked(0, 2, after(20, 0.05));
  EXPECT_EQ(texts(again), Texts{"answer 2 of 0: end"});
  EXPECT_EQ(told(again, "early_stop"), Texts{});
}

TEST_F(TeamCourse, AnswersNobodyElse) {
  EXPECT_EQ(texts(team_.asked(1, 1, after(10, 0.5))), Texts{});
}

}  // namespace
}  // namespace tandem::cluster
