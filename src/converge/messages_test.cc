#include "converge/messages.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::converge {
namespace {

TEST(Messages, KeepEveryBitOfAQuestion) {
  const Question question{
      7, 10, {-0.1, 3, 1.0 / 3, 2.0 / 3, 0.1 + 0.2, 1e-300}, Measured{0.1, 1.0 / 7, 5e-324}};
  const auto again = from_wire(to_wire(question, 4));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->step, 7);
  EXPECT_EQ(again->steps, 10);
  EXPECT_EQ(again->memory, question.memory);
  ASSERT_TRUE(again->measured);
  EXPECT_EQ(again->measured->loss, 0.1);
  EXPECT_EQ(again->measured->accuracy, 1.0 / 7);
  EXPECT_EQ(again->measured->divergence, 5e-324);
  EXPECT_EQ(to_wire(question, 4).number(), 4);
}

TEST(Messages, TellNothingFromZero) {
  const auto nothing = from_wire(to_wire(Question{}, 1));
  EXPECT_EQ(nothing->memory, Memory());
  EXPECT_FALSE(nothing->measured);
  const auto zeros = from_wire(to_wire(Question{0, 0, {0, 0, 0, 0, 0, 0}, Measured{0, 0, 0}}, 1));
  EXPECT_EQ(zeros->memory.best, 0);
  EXPECT_EQ(zeros->memory.divergence, 0);
  ASSERT_TRUE(zeros->measured);
  EXPECT_EQ(zeros->measured->accuracy, 0);
  EXPECT_EQ(zeros->measured->divergence, 0);
}

TEST(Messages, KeepAVerdict) {
  for (const Ending ending : {Ending::kNone, Ending::kFinished, Ending::kConverged}) {
    const Verdict verdict{ending, "why", {.best = 0.5, .bad = 2}};
    const auto again = from_wire(to_wire(verdict, 9));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->ending, ending);
    EXPECT_EQ(again->reason, "why");
    EXPECT_EQ(again->memory, verdict.memory);
    EXPECT_EQ(to_wire(verdict, 9).number(), 9);
  }
}

TEST(Messages, RefuseWhatNobodyCanMean) {
  wire::Question question;
  for (const std::int64_t bad : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    question.mutable_memory()->set_bad(bad);
    EXPECT_EQ(from_wire(question).error().code(), Code::kCorrupt);
  }
  wire::Verdict verdict;
  verdict.set_ending("perhaps");
  EXPECT_EQ(from_wire(verdict).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace tandem::converge
