// Ranks as processes, one of which is killed or stopped.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>

#include "collective/gloo_testing.h"
#include "collective/group.h"

namespace tandem::collective {
namespace {

using namespace std::chrono_literals;
using namespace gloo_testing;
using Clock = std::chrono::steady_clock;

struct Outcome {
  std::int64_t nanoseconds;  // When the call returned.
  Code code;
  char message[256];
};

struct Rank {
  pid_t pid = 0;
  Descriptor reads;  // A byte when the rank has joined, then its Outcome.
};

// What a survivor waits for: all ranks, the next one, a ring sum, a rank that is busy, or nothing
// in particular: all ranks, the victim too, are in the middle of long exchanges.
enum class Waits { kAll, kNext, kSum, kOfTheIdle, kTraffic };

[[noreturn]] void live(int rank, int size, int victim, Waits waits, std::uint16_t port, int out,
                       std::chrono::milliseconds patience) {
  ::alarm(20);
  auto engine = join(rank, size, port);
  if (!engine.ok()) ::_exit(3);
  if (::write(out, "r", 1) != 1) ::_exit(4);
  if ((rank == victim && waits != Waits::kTraffic) || (waits == Waits::kOfTheIdle && rank == 1)) {
    for (;;) ::pause();
  }
  std::vector<std::vector<std::byte>> to(4), from(4);
  for (int peer = 0; peer < size; ++peer) {
    to[static_cast<std::size_t>(peer)].resize(1 << 20);
    from[static_cast<std::size_t>(peer)].resize(1 << 20);
  }
  const Receive next{(rank + 1) % size, from[0]};
  const Send previous{(rank + size - 1) % size, to[0]};
  Status status;
  const Deadline deadline = deadline_after(patience);
  switch (waits) {
    case Waits::kAll:
      status = exchange_all(**engine, to, from, deadline);
      break;
    case Waits::kTraffic:
      while (status.ok()) status = exchange_all(**engine, to, from, deadline_after(patience));
      break;
    case Waits::kNext:
      // Twice: the first time the victim is not needed by all.
      for (int i = 0; i < size && status.ok(); ++i)
        status = (*engine)->exchange({&previous, 1}, {&next, 1}, deadline);
      break;
    case Waits::kOfTheIdle: {
      const Receive idle{1, from[0]};
      status = (*engine)->exchange({}, {&idle, 1}, deadline);
      break;
    }
    case Waits::kSum:
      status = *(*engine)->all_reduce({from[0].data(), 1 << 18}, Op::kSum, Order::kRing, deadline);
      break;
  }
  Outcome outcome{Clock::now().time_since_epoch().count(), Code::kInternal, "no error"};
  if (!status.ok()) {
    outcome.code = status.error().code();
    std::strncpy(outcome.message, status.error().message().c_str(), sizeof outcome.message - 1);
  }
  const bool written = ::write(out, &outcome, sizeof outcome) == sizeof outcome;
  engine->reset();
  ::_exit(written ? 0 : 5);
}

void expect_survivors_to_say(int signal, Waits waits, Code code, const char* text,
                             std::chrono::milliseconds patience,
                             std::chrono::milliseconds allowed) {
  constexpr int kSize = 4, kVictim = 2;
  const auto server = start_store();
  std::vector<Rank> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) live(rank, kSize, kVictim, waits, server->port(), ends[1], patience);
    ::close(ends[1]);
    ranks.push_back({pid, Descriptor(ends[0])});
  }
  for (const Rank& rank : ranks) {
    char ready = 0;
    ASSERT_EQ(::read(rank.reads.get(), &ready, 1), 1);
  }
  const std::int64_t before = Clock::now().time_since_epoch().count();
  ASSERT_EQ(::kill(ranks[kVictim].pid, signal), 0);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == kVictim || (waits == Waits::kOfTheIdle && rank == 1)) continue;
    Outcome outcome{};
    ASSERT_EQ(::read(ranks[static_cast<std::size_t>(rank)].reads.get(), &outcome, sizeof outcome),
              static_cast<ssize_t>(sizeof outcome));
    const std::string message = outcome.message;
    EXPECT_EQ(outcome.code, code) << rank << ": " << message;
    EXPECT_NE(message.find(text), std::string::npos) << rank << ": " << message;
    EXPECT_LT(std::chrono::nanoseconds(outcome.nanoseconds - before), allowed) << message;
  }
  if (waits == Waits::kOfTheIdle) ::kill(ranks[1].pid, SIGKILL);
  // The survivors' engines must end although the victim may still be stopped.
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == kVictim) continue;
    int status = 0;
    ASSERT_EQ(::waitpid(ranks[static_cast<std::size_t>(rank)].pid, &status, 0),
              ranks[static_cast<std::size_t>(rank)].pid);
    const bool killed = waits == Waits::kOfTheIdle && rank == 1;
    EXPECT_TRUE(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << rank << " ended with " << status;
  }
  EXPECT_LT(std::chrono::nanoseconds(Clock::now().time_since_epoch().count() - before),
            allowed + 1s);
  ::kill(ranks[kVictim].pid, SIGKILL);
  EXPECT_EQ(::waitpid(ranks[kVictim].pid, nullptr, 0), ranks[kVictim].pid);
}

// One rank of three calls something else; all must hear that it was this one.
TEST(GlooEngineFault, ARankThatCallsSomethingElseIsNamed) {
  const auto server = start_store();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      auto engine = join(rank, 3, server->port());
      ASSERT_TRUE(engine.ok()) << engine.error().message();
      Group group(std::move(engine).value());
      std::vector<float> values(rank == 1 ? 101 : 100);
      const Status status = group.all_reduce(values, deadline_after(5s));
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code(), Code::kInvalidArgument) << status.error().message();
      EXPECT_NE(status.error().message().find("worker 1"), std::string::npos)
          << status.error().message();
    });
  }
}

TEST(GlooEngineFault, AKilledRankIsNamedByAllWhoWaitForIt) {
  expect_survivors_to_say(SIGKILL, Waits::kAll, Code::kPeerLost, "worker 2", 10s, 1s);
}

TEST(GlooEngineFault, AKilledRankIsNamedByThoseWhoWaitForOthers) {
  expect_survivors_to_say(SIGKILL, Waits::kNext, Code::kPeerLost, "worker 2", 10s, 1s);
}

TEST(GlooEngineFault, AKilledRankIsNamedByThoseWhoWaitForOneThatIsBusy) {
  expect_survivors_to_say(SIGKILL, Waits::kOfTheIdle, Code::kPeerLost, "worker 2", 10s, 1s);
}

TEST(GlooEngineFault, AKilledRankEndsARingSum) {
  expect_survivors_to_say(SIGKILL, Waits::kSum, Code::kPeerLost, "worker 2", 10s, 1s);
}

TEST(GlooEngineFault, ARankKilledInTheMiddleOfAnExchangeIsNamed) {
  expect_survivors_to_say(SIGKILL, Waits::kTraffic, Code::kPeerLost, "worker 2", 10s, 1s);
}

TEST(GlooEngineFault, ARankStoppedInTheMiddleOfAnExchangeIsLate) {
  expect_survivors_to_say(SIGSTOP, Waits::kTraffic, Code::kTimeout, "worker 2", 500ms, 1000ms);
}

TEST(GlooEngineFault, AStoppedRankIsLate) {
  expect_survivors_to_say(SIGSTOP, Waits::kAll, Code::kTimeout, "worker 2", 500ms, 1000ms);
}

TEST(GlooEngineFault, AStoppedRankMakesARingSumLate) {
  expect_survivors_to_say(SIGSTOP, Waits::kSum, Code::kTimeout, "worker 2", 500ms, 1000ms);
}

}  // namespace
}  // namespace tandem::collective
