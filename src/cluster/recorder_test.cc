#include "cluster/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

class Recorded : public testing::Test {
 protected:
  void SetUp() override {
    auto created = RunDirectory::create_at(scratch.path() / "run");
    ASSERT_TRUE(created.ok());
    directory.emplace(*std::move(created));
  }
  static wire::WorkerMessage evaluated(std::int64_t step, double loss) {
    wire::WorkerMessage message;
    message.mutable_evaluated()->set_part("test");
    message.mutable_evaluated()->set_step(step);
    message.mutable_evaluated()->set_loss(loss);
    return message;
  }
  std::int64_t lines() const {
    const std::string metrics = content_of(directory->metrics());
    return std::count(metrics.begin(), metrics.end(), '\n');
  }

  const ScratchDirectory scratch;
  std::optional<RunDirectory> directory;
};

TEST_F(Recorded, EvaluationIsToldOnceWhoeverTellsIt) {
  auto recorder = Recorder::create(*directory, 2);
  ASSERT_TRUE(recorder.ok());
  recorder->message(1, evaluated(7, 0.25));
  recorder->message(0, evaluated(7, 0.25));
  EXPECT_EQ(lines(), 1);
  recorder->message(0, evaluated(8, 0.25));
  EXPECT_EQ(lines(), 2);
}

TEST_F(Recorded, NotesOfTheStartAreToldOnceWhoeverTellsThem) {
  auto recorder = Recorder::create(*directory, 2);
  ASSERT_TRUE(recorder.ok());
  wire::WorkerMessage started;
  started.mutable_started()->add_notes("data: 3 rows were left out");
  recorder->message(1, started);
  recorder->message(0, started);
  const std::string events = content_of(directory->events());
  EXPECT_EQ(std::count(events.begin(), events.end(), '\n'), 1) << events;
}

TEST_F(Recorded, EvaluationIsToldOnceByARunThatGoesOn) {
  {
    auto recorder = Recorder::create(*directory, 1);
    ASSERT_TRUE(recorder.ok());
    recorder->message(0, evaluated(7, 1.0 / 3));
  }
  auto recorder = Recorder::reopen(*directory, 1);
  ASSERT_TRUE(recorder.ok());
  recorder->message(0, evaluated(7, 1.0 / 3));
  EXPECT_EQ(lines(), 1);
  ASSERT_TRUE(recorder->tested().has_value());  // For the report.
  // By other data, for example.
  recorder->message(0, evaluated(7, 0.5));
  EXPECT_EQ(lines(), 2);
  EXPECT_EQ(recorder->tested()->loss(), 0.5);
}

TEST_F(Recorded, EvaluationsAfterThePointAreToldAgain) {
  auto recorder = Recorder::create(*directory, 1);
  ASSERT_TRUE(recorder.ok());
  recorder->message(0, evaluated(7, 0.5));
  recorder->message(0, evaluated(9, 0.25));
  ASSERT_TRUE(recorder->go_back_to(*directory, {.checkpoint = {}, .step = 8}).ok());
  EXPECT_EQ(lines(), 1);
  recorder->message(0, evaluated(7, 0.5));
  recorder->message(0, evaluated(9, 0.25));
  EXPECT_EQ(lines(), 2);
}

}  // namespace
}  // namespace tandem::cluster
