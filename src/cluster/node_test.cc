#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "cluster/run_workers.h"
#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Remembers everything, and does what a test asks for when something comes.
class Log : public WorkerListener {
 public:
  Status message(int, const wire::WorkerMessage& message) override {
    messages.push_back(message);
    return on_message ? on_message() : Status();
  }
  Status line(int, Stream stream, std::string_view text) override {
    lines.push_back((stream == Stream::kErrors ? "E " : "O ") + std::string(text));
    return on_line ? on_line() : Status();
  }
  void stopping(Order order, Cause) override { orders.push_back(order); }
  void resumed() override {}
  void tick() override {}

  std::vector<wire::WorkerMessage> messages;
  std::vector<std::string> lines;
  std::vector<Order> orders;
  std::function<Status()> on_message, on_line;
};

class Node : public testing::Test {
 protected:
  WorkerEnd run(const std::string& script) {
    auto signals = SignalQueue::create();
    EXPECT_TRUE(signals.ok());
    const std::vector<Command> commands = {shell(script)};
    auto ends = run_workers(commands, limits, *signals, log);
    EXPECT_TRUE(ends.ok());
    if (!ends.ok()) return {};
    expect_nobody_left(ends->front().pid);
    return ends->front();
  }
  // The worker's own children were killed with it. They are ours now (see SetUp), so that waiting
  // shows their end.
  static void expect_nobody_left(pid_t group) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    while (::waitpid(-group, nullptr, WNOHANG) >= 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << "somebody is left of the worker's process group";
      ::usleep(1000);
    }
    EXPECT_EQ(errno, ECHILD);
  }
  void SetUp() override { ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }

  std::string frames(std::initializer_list<wire::WorkerMessage> messages) {
    const auto path = scratch.path() / fmt::format("frames-{}", count_++);
    write_frames(path, messages);
    return fmt::format("cat {} >&3; ", path.string());
  }

  ScratchDirectory scratch;
  Limits limits{.start = seconds(20), .silence = seconds(20), .grace = seconds(20)};
  Log log;

 private:
  int count_ = 0;
};

TEST_F(Node, HandsOnMessagesAndLinesUntilTheEnd) {
  const auto end = run("echo loading; " + frames({started_message(), progress_message(5, 0)}) +
                       frames({finished_message("finished")}) + "echo careful >&2; exit 0");
  EXPECT_EQ(end.exit, (Exit{false, 0}));
  EXPECT_EQ(end.cause, Cause::kNone);
  EXPECT_GT(end.control_bytes, 0U);
  ASSERT_EQ(log.messages.size(), 3U);
  EXPECT_EQ(log.messages[1].progress().step(), 5);
  EXPECT_EQ(log.messages[2].finished().status(), "finished");
  ASSERT_EQ(log.lines.size(), 2U);
  EXPECT_TRUE(log.orders.empty());
}

TEST_F(Node, LosesNothingThatWasWrittenRightBeforeADeath) {
  const auto end =
      run("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; printf 'last words' >&2; "
          "kill -9 $$");
  EXPECT_EQ(end.exit, (Exit{true, SIGKILL}));
  ASSERT_EQ(log.lines.size(), 501U);
  EXPECT_NE(std::ranges::find(log.lines, "O line 499"), log.lines.end());
  EXPECT_NE(std::ranges::find(log.lines, "E last words"), log.lines.end());
}

TEST_F(Node, KillsAWorkerThatDoesNotStart) {
  limits.start = milliseconds(50);
  const auto end = run("sleep 1000");
  EXPECT_EQ(end.cause, Cause::kStartTimeout);
  EXPECT_EQ(end.exit, (Exit{true, SIGKILL}));
  EXPECT_EQ(log.orders, std::vector{Order::kKill});
}

TEST_F(Node, KillsAWorkerThatFallsSilent) {
  limits.silence = milliseconds(50);
  const auto end = run(frames({started_message()}) + "sleep 1000");
  EXPECT_EQ(end.cause, Cause::kSilence);
  EXPECT_EQ(end.exit, (Exit{true, SIGKILL}));
}

TEST_F(Node, AnInterruptAsksTheWorkerToEnd) {
  log.on_message = [this] {
    if (log.messages.back().has_started()) ::raise(SIGINT);
    return Status();
  };
  const std::string goodbye = frames({finished_message("cancelled")});
  const auto end = run("trap '" + goodbye + "exit 130' TERM; " + frames({started_message()}) +
                       "while :; do sleep 0.01; done");
  EXPECT_EQ(end.cause, Cause::kCancelled);
  EXPECT_EQ(log.messages.back().finished().status(), "cancelled");
  EXPECT_EQ(end.exit, (Exit{false, 130}));
}

TEST_F(Node, KillsAWorkerThatIgnoresTheFirstInterruptWhenItsGraceIsOver) {
  limits.grace = milliseconds(50);
  log.on_message = [] {
    ::raise(SIGTERM);
    return Status();
  };
  const auto end =
      run("trap '' TERM; " + frames({started_message()}) + "while :; do sleep 0.01; done");
  EXPECT_EQ(end.cause, Cause::kCancelled);
  EXPECT_EQ(end.exit, (Exit{true, SIGKILL}));
  EXPECT_EQ(log.orders, (std::vector{Order::kTerminate, Order::kKill}));
}

TEST_F(Node, ASecondInterruptKillsAtOnce) {
  log.on_line = [] {
    ::raise(SIGINT);
    return Status();
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto end = run("trap 'echo again' TERM; echo once; while :; do sleep 0.01; done");
  EXPECT_EQ(end.exit, (Exit{true, SIGKILL}));
  EXPECT_EQ(log.orders, (std::vector{Order::kTerminate, Order::kKill}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, limits.grace);
}

TEST_F(Node, EndsAWorkerWhoseWordsCannotBeRecorded) {
  log.on_message = [] { return Status(Error(Code::kOutOfSpace, "the disk is full")); };
  const auto end = run(frames({started_message()}) + "sleep 1000");
  EXPECT_EQ(end.cause, Cause::kFailure);
  ASSERT_TRUE(end.failure.has_value());
  EXPECT_EQ(end.failure->code(), Code::kOutOfSpace);
  EXPECT_EQ(end.exit, (Exit{true, SIGTERM}));
}

TEST_F(Node, EndsAWorkerThatTalksNonsense) {
  const auto end = run("echo this is certainly not a frame >&3; sleep 1000");
  EXPECT_EQ(end.cause, Cause::kFailure);
  ASSERT_TRUE(end.failure.has_value());
  EXPECT_EQ(end.failure->code(), Code::kCorrupt);
}

TEST_F(Node, AWorkerThatHangsAfterItsReportIsKilledWithoutBlame) {
  limits.grace = milliseconds(50);
  const auto end = run(frames({started_message(), finished_message("finished")}) + "sleep 1000");
  EXPECT_EQ(end.cause, Cause::kNone);
  EXPECT_EQ(end.exit, (Exit{true, SIGKILL}));
}

TEST_F(Node, AClosedControlSocketIsNoReasonToSpinOrEnd) {
  const auto end = run("exec 3>&-; echo closed; sleep 0.1; exit 4");
  EXPECT_EQ(end.exit, (Exit{false, 4}));
  EXPECT_EQ(end.cause, Cause::kNone);
}

TEST_F(Node, ReportsAMissingWorker) {
  auto signals = SignalQueue::create();
  ASSERT_TRUE(signals.ok());
  const std::vector<Command> commands = {{scratch.path() / "absent", {}, {}}};
  const auto end = run_workers(commands, limits, *signals, log);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tandem::cluster
