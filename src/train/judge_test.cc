#include "train/judge.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "collective/testing.h"

namespace tandem::train {
namespace {

using std::chrono::milliseconds;

constexpr int kWorkers = 3;
constexpr milliseconds kPatience{20000};
const converge::Question kQuestion{
    5, 10, {.best = -0.5, .bad = 1}, converge::Measured{0.6, {}, {}}};

class Collector final : public Reporter {
 public:
  void report(const wire::WorkerMessage& message) override { messages.push_back(message); }
  std::vector<wire::WorkerMessage> messages;
};

// One that decides by the same rules, after it was looked at some times.
class SlowJudge final : public Judge {
 public:
  explicit SlowJudge(int looks) : looks_(looks) {}

  void ask(const converge::Question& question) override {
    ++asked;
    verdict_ = converge::judge({.patience = 2}, question);
  }
  Result<std::optional<converge::Verdict>> answer(milliseconds) override {
    return looks_-- > 0 ? std::nullopt : std::optional(verdict_);
  }

  std::atomic<int> asked = 0;

 private:
  int looks_;  // Of the first worker.
  converge::Verdict verdict_;
};

TEST(Consult, GivesEveryWorkerWhatTheFirstOneHears) {
  SlowJudge judge(3);
  const converge::Verdict truth = converge::judge({.patience = 2}, kQuestion);
  ASSERT_EQ(truth.ending, converge::Ending::kConverged);
  std::atomic<int> right = 0, alive = 0;
  collective::testing::run_shm_ranks(kWorkers, [&](collective::Group& group) {
    const auto verdict = consult(judge, kQuestion, group, kPatience, [&] {
      if (group.rank() != 0) ++alive;
      return group.rank() != 0;  // Only the first one decides whether they stop.
    });
    ASSERT_TRUE(verdict.ok()) << verdict.error().message();
    ASSERT_TRUE(*verdict);
    if ((*verdict)->ending == truth.ending && (*verdict)->reason == truth.reason &&
        (*verdict)->memory == truth.memory)
      ++right;
  });
  EXPECT_EQ(right, kWorkers);
  EXPECT_EQ(judge.asked, 1);
  EXPECT_EQ(alive, 4 * (kWorkers - 1)) << "the others say that they live while they wait";
}

TEST(Consult, EndsForAllWhenTheFirstIsAskedToStopWhileItWaits) {
  SlowJudge judge(1000000);
  std::atomic<int> stopped = 0;
  collective::testing::run_shm_ranks(kWorkers, [&](collective::Group& group) {
    int looks = 0;
    const auto verdict =
        consult(judge, kQuestion, group, kPatience, [&] { return ++looks == 3 && !group.rank(); });
    ASSERT_TRUE(verdict.ok()) << verdict.error().message();
    if (!*verdict) ++stopped;
  });
  EXPECT_EQ(stopped, kWorkers);
}

TEST(Consult, DoesNotWaitForEver) {
  SlowJudge judge(1000000);
  collective::Group alone;
  const auto verdict = consult(judge, kQuestion, alone, kPatience, [] { return false; });
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().code(), Code::kTimeout);
}

TEST(OwnJudge, ReportsOnceThatItEndsTraining) {
  job::Train train;
  train.early_stop_target = 0.5;
  Collector collector;
  OwnJudge judge(train, collector);
  judge.ask({5, 10, {}, converge::Measured{0.6, {}, {}}});
  EXPECT_EQ((*judge.answer({}))->ending, converge::Ending::kNone);
  EXPECT_TRUE(collector.messages.empty());
  judge.ask({6, 10, {}, converge::Measured{0.4, {}, {}}});
  const converge::Verdict verdict = *judge.answer({}).value();
  EXPECT_EQ(verdict.ending, converge::Ending::kConverged);
  // As after a restart: it is no news then.
  judge.ask({6, 10, verdict.memory, {}});
  EXPECT_EQ((*judge.answer({}))->reason, verdict.reason);
  ASSERT_EQ(collector.messages.size(), 1U);
  EXPECT_EQ(collector.messages[0].event().kind(), "early_stop");
  EXPECT_EQ(collector.messages[0].event().detail(), verdict.reason);
}

}  // namespace
}  // namespace tandem::train
