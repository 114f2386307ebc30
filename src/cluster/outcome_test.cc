#include "cluster/outcome.h"

#include <gtest/gtest.h>

#include <csignal>

#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

class Judge : public testing::Test {
 protected:
  Outcome judged() const {
    const Words words{progress, finished, failed, {}};
    return judge({&end, 1}, Limits(), {{&words, 1}, job, {"runs/x-1/worker-0.log"}});
  }
  Code code() const {
    const Outcome outcome = judged();
    EXPECT_EQ(outcome.status, RunStatus::kFailed);
    EXPECT_TRUE(outcome.error.has_value());
    return outcome.error.has_value() ? outcome.error->code() : Code::kInternal;
  }

  WorkerEnd end{.pid = 42, .exit = {}, .cause = Cause::kNone, .failure = {}, .control_bytes = 0};
  std::optional<wire::Progress> progress;
  std::optional<wire::Finished> finished;
  std::optional<wire::Failed> failed;
  job::ParsedJob job;
};

TEST_F(Judge, BelievesAFinishedWorkerWhateverItsExit) {
  finished = finished_message("converged").finished();
  end.exit = {true, SIGKILL};
  EXPECT_EQ(judged().status, RunStatus::kConverged);
  EXPECT_FALSE(judged().error.has_value());
}

TEST_F(Judge, ADeathNamesWhoWhenHowAndWhere) {
  progress = progress_message(812, 3).progress();
  end.exit = {true, SIGKILL};
  EXPECT_EQ(code(), Code::kPeerLost);
  const std::string message = judged().error->message();
  for (const char* part :
       {"worker 0 (pid 42)", "signal 9 (SIGKILL)", "step 812, epoch 4", "dmesg", "worker-0.log"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  EXPECT_EQ(judged().lost, 0U);
}

TEST_F(Judge, AnExitWithoutAResultIsALostWorkerEvenWithCodeZero) {
  EXPECT_EQ(code(), Code::kPeerLost);
  EXPECT_EQ(judged().lost, 0U);
}

TEST_F(Judge, AFailedMessageDecidesTheCode) {
  failed.emplace();
  failed->set_code("diverged");
  failed->set_message("loss is NaN");
  end.exit = {false, 10};
  EXPECT_EQ(code(), Code::kDiverged);
  EXPECT_EQ(judged().error->message(), "loss is NaN");
  EXPECT_FALSE(judged().lost.has_value());
  failed->set_code("from the future");
  EXPECT_EQ(code(), Code::kInternal);
}

TEST_F(Judge, AFailedKeyIsShownAtTheUsersOwnText) {
  const std::vector<std::string> overrides = {"train.batch=100000"};
  auto parsed =
      job::parse_located("[model]\nkind = \"mlp\"\nhidden = [64]\n[data]\nsource = \"digits\"\n",
                         "my/digits.toml", overrides);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  job = *std::move(parsed);
  failed.emplace();
  failed->set_code("invalid_argument");
  failed->set_message("too wide");
  failed->set_key("model.hidden");
  EXPECT_EQ(code(), Code::kInvalidArgument);
  EXPECT_EQ(judged().reason, "too wide");
  EXPECT_EQ(judged().error->message().find("too wide\n  --> my/digits.toml:3:10\n"), 0U)
      << judged().error->message();
  EXPECT_NE(judged().error->message().find("hidden = [64]"), std::string::npos);

  failed->set_key("train.batch");
  EXPECT_NE(judged().error->message().find("train.batch=100000"), std::string::npos)
      << judged().error->message();
  failed->set_key("train.loss");
  EXPECT_EQ(judged().error->message().find("too wide"), 0U) << "a key that was not given";
}

TEST_F(Judge, ACancelledWorkerDidNotFailHoweverItEnded) {
  end.cause = Cause::kCancelled;
  end.exit = {true, SIGKILL};
  EXPECT_EQ(judged().status, RunStatus::kCancelled);
  failed.emplace();
  EXPECT_EQ(judged().status, RunStatus::kCancelled);
}

TEST_F(Judge, TimeoutsSayWhichOptionGivesMoreTime) {
  end.exit = {true, SIGKILL};
  end.cause = Cause::kStartTimeout;
  EXPECT_EQ(code(), Code::kTimeout);
  EXPECT_NE(judged().error->message().find("--start-timeout"), std::string::npos);
  end.cause = Cause::kSilence;
  EXPECT_EQ(code(), Code::kTimeout);
  EXPECT_NE(judged().error->message().find("--timeout"), std::string::npos);
}

TEST_F(Judge, WhatCouldNotBeRecordedFailsTheRun) {
  finished = finished_message("finished").finished();
  end.failure = Error(Code::kOutOfSpace, "write metrics.jsonl: no space left");
  EXPECT_EQ(code(), Code::kOutOfSpace);
}

}  // namespace
}  // namespace tandem::cluster
