#include "cluster/child.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

// All that can be read until the end of the stream.
std::string read_all(int fd) {
  std::string all;
  char chunk[4096];
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, 10'000) != 1) return all + "<time-out>";
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got <= 0) return all;
    all.append(chunk, static_cast<std::size_t>(got));
  }
}

Exit wait_for(Child& child) {
  pollfd entry{child.pidfd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1) << "the child does not end";
  const auto exit = child.try_wait();
  EXPECT_TRUE(exit.has_value());
  return exit.value_or(Exit{});
}

TEST(Child, SeparatesOutputAndErrorsAndReturnsTheExitCode) {
  auto child = Child::start(shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(child.ok()) << child.error().message();
  EXPECT_EQ(read_all(child->output()), "out\n");
  EXPECT_EQ(read_all(child->errors()), "err\n");
  EXPECT_EQ(wait_for(*child), (Exit{false, 7}));
  EXPECT_EQ(child->try_wait(), (Exit{false, 7}));
}

TEST(Child, FindsItsControlSocketAtTheAgreedNumber) {
  auto child = Child::start(shell("printf hello >&3"));
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(read_all(child->control()), "hello");
}

TEST(Child, InheritsNothingElse) {
  const Descriptor leaked(::dup(STDOUT_FILENO));  // Without close-on-exec.
  auto child = Child::start(shell("ls /proc/self/fd | sort -n | tr '\\n' ' '"));
  ASSERT_TRUE(child.ok());
  // 0 to 3, and the directory that ls itself reads.
  EXPECT_EQ(read_all(child->output()), "0 1 2 3 4 ");
}

TEST(Child, HasTheEnvironmentItIsGiven) {
  Command command = shell("echo $COLOUR");
  command.environment.emplace_back("COLOUR=blue");
  auto child = Child::start(command);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(read_all(child->output()), "blue\n");
}

TEST(Child, StartsWithNoSignalBlocked) {
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto child = Child::start(shell("grep SigBlk /proc/self/status"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(read_all(child->output()), "SigBlk:\t0000000000000000\n");
}

TEST(Child, AMissingProgramIsNotFound) {
  const auto child = Child::start({"/nonexistent/tandem-worker", {}, {}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code(), Code::kNotFound);
  EXPECT_NE(child.error().message().find("/nonexistent/tandem-worker"), std::string::npos);
}

TEST(Child, AFileThatIsNoProgramIsDenied) {
  const auto child = Child::start({"/etc/passwd", {}, {}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code(), Code::kDenied);
}

TEST(Child, ReportsTheSignalThatKilledIt) {
  auto child = Child::start(shell("kill -9 $$"));
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(wait_for(*child), (Exit{true, SIGKILL}));
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
}

TEST(Child, TakesItsOwnChildrenWithIt) {
  auto child = Child::start(shell("sleep 1000 & echo $!"));
  ASSERT_TRUE(child.ok());
  wait_for(*child);
  // The pipe ends only when the grandchild, which holds it too, is gone.
  const std::string grandchild = read_all(child->output());
  EXPECT_EQ(grandchild.find("time-out"), std::string::npos);
}

TEST(Child, IsGoneWhenItsOwnerIs) {
  pid_t pid = -1;
  {
    auto child = Child::start(shell("trap '' TERM; while :; do sleep 1; done"));
    ASSERT_TRUE(child.ok());
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Become, ReplacesTheProcessOrSaysWhyNot) {
  EXPECT_EXIT((void)become(shell("exit 7")), testing::ExitedWithCode(7), "");
  EXPECT_EQ(become({"/no/such/program", {}, {}}).code(), Code::kNotFound);
}

}  // namespace
}  // namespace tandem::cluster
