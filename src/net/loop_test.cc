#include "net/loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <string>
#include <thread>

#include "base/descriptor.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

TEST(Loop, CallsWhatOtherThreadsPostInTheirOrder) {
  const auto loop = make_loop();
  std::string calls;
  std::thread other([&] {
    for (char c = 'a'; c <= 'e'; ++c) loop->post([&calls, c] { calls += c; });
    loop->stop();
  });
  loop->run();
  other.join();
  EXPECT_EQ(calls, "abcde");
}

TEST(Loop, AStopBeforeTheRunEndsItAndTheNextRunGoesOn) {
  const auto loop = make_loop();
  loop->stop();
  loop->run();
  bool called = false;
  loop->post([&] {
    called = true;
    loop->stop();
  });
  loop->run();
  EXPECT_TRUE(called);
}

TEST(Loop, RunsForNoLongerThanAsked) {
  const auto loop = make_loop();
  const auto never = loop->after(1h, [] { FAIL(); });
  const auto began = Loop::Clock::now();
  loop->run_for(20ms);
  EXPECT_GE(Loop::Clock::now() - began, 20ms);
  EXPECT_EQ(loop->poll_once(1ms), 0U);
}

TEST(Loop, CallsTimersByTheirTimeAndNotTheCancelledOnes) {
  const auto loop = make_loop();
  std::string calls;
  const auto late = loop->after(20ms, [&] { calls += 'b'; });
  const auto early = loop->after(1ms, [&] { calls += 'a'; });
  auto cancelled = loop->after(2ms, [&] { calls += 'x'; });
  {
    const auto destroyed = loop->after(2ms, [&] { calls += 'y'; });
  }
  auto replaced = loop->after(2ms, [&] { calls += 'z'; });
  replaced = loop->after(30ms, [&] { calls += 'c'; });
  cancelled.cancel();
  EXPECT_TRUE(wait_until(*loop, [&] { return calls.size() == 3; }));
  EXPECT_EQ(calls, "abc");
}

TEST(Loop, ATimerThatIsDueIsStillTakenBack) {
  const auto loop = make_loop();
  Timer second;
  int calls = 0;
  const auto first = loop->after(0ms, [&] {
    ++calls;
    second.cancel();
  });
  second = loop->after(0ms, [&] { ++calls; });
  loop->run_for(20ms);
  EXPECT_EQ(calls, 1);
}

TEST(Loop, CallsAWatchWhileItsDescriptorIsReadable) {
  const auto loop = make_loop();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Descriptor ours(ends[0]), theirs(ends[1]);
  std::string received;
  auto watch = loop->watch(ours.get(), [&] {
    char byte = 0;
    if (::recv(ours.get(), &byte, 1, 0) == 1) received += byte;
  });
  ASSERT_TRUE(watch.ok());
  ASSERT_EQ(::send(theirs.get(), "ab", 2, 0), 2);
  // One byte for each call: it comes again as long as there is more.
  EXPECT_TRUE(wait_until(*loop, [&] { return received == "ab"; }));
  ASSERT_EQ(::send(theirs.get(), "c", 1, 0), 1);
  EXPECT_TRUE(wait_until(*loop, [&] { return received == "abc"; }));
  EXPECT_EQ(::fcntl(ours.get(), F_GETFL) & O_NONBLOCK, 0);
  watch->cancel();
  ASSERT_EQ(::send(theirs.get(), "d", 1, 0), 1);
  loop->run_for(10ms);
  EXPECT_EQ(received, "abc");
}

TEST(Loop, AWatchMayEndItself) {
  const auto loop = make_loop();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  int calls = 0;
  Watch watch;
  auto made = loop->watch(ours.get(), [&] {
    ++calls;
    watch.cancel();
  });
  ASSERT_TRUE(made.ok());
  watch = std::move(made).value();
  theirs.close();
  loop->run_for(10ms);
  EXPECT_EQ(calls, 1);
}

TEST(Loop, SeesAChildEndThroughItsPidfd) {
  const auto loop = make_loop();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(7);
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(pidfd.is_open());
  bool ended = false;
  Watch watch;
  auto made = loop->watch(pidfd.get(), [&] {
    ended = true;
    watch.cancel();
  });
  ASSERT_TRUE(made.ok());
  watch = std::move(made).value();
  EXPECT_TRUE(wait_until(*loop, [&] { return ended; }));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Loop, SaysWhenADescriptorCannotBeWatched) {
  const auto loop = make_loop();
  EXPECT_FALSE(loop->watch(-1, [] {}).ok());
}

}  // namespace
}  // namespace tandem::net
