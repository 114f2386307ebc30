#include "collective/shm_engine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "collective/testing.h"

namespace tandem::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::member;

// A rank in a process of its own. It leaves with 0 when `body` returns true.
pid_t start_rank(const std::shared_ptr<const Arena>& arena, int rank, int size,
                 const std::function<bool(Group&)>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  auto engine = make_shm_engine(arena, member(rank, size), testing::soon());
  if (!engine.ok()) ::_exit(3);
  Group group(std::move(engine).value());
  ::_exit(body(group) ? 0 : 1);
}

int exit_code_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Reduces until something fails; then the failure must be this one, of rank 1.
bool reduce_until(Group& group, Code code, std::string_view word, milliseconds patience) {
  std::vector<float> values(50000);
  for (;;) {
    const Status status = group.all_reduce(values, deadline_after(patience));
    if (status.ok()) continue;
    const std::string& message = status.error().message();
    return status.error().code() == code && message.find("worker 1 (pid") == 0 &&
           message.find(word) != std::string::npos;
  }
}

TEST(ShmEngine, NamesTheRankThatWasKilledWithinASecond) {
  for (int size = 2; size <= 4; ++size) {
    const auto arena = std::make_shared<const Arena>(Arena::create().value());
    std::vector<pid_t> pids;
    for (int rank = 0; rank < size; ++rank) {
      pids.push_back(start_rank(arena, rank, size, [](Group& group) {
        return reduce_until(group, Code::kPeerLost, "ended", std::chrono::seconds(20));
      }));
    }
    ::usleep(50000);  // Somewhere in the middle; any moment will do.
    ::kill(pids[1], SIGKILL);
    const auto begin = steady_clock::now();
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(exit_code_of(pids[static_cast<std::size_t>(rank)]), rank == 1 ? -SIGKILL : 0);
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(1));
  }
}

TEST(ShmEngine, NamesARankThatDiedBeforeItCame) {
  const auto arena = std::make_shared<const Arena>(Arena::create().value());
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(exit_code_of(dead), 0);
  Membership membership = member(0, 2);
  membership.members[1].pid = dead;
  const auto engine = make_shm_engine(arena, membership, testing::soon());
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), Code::kPeerLost);
  EXPECT_EQ(engine.error().message().find("worker 1 (pid " + std::to_string(dead)), 0U)
      << engine.error().message();
}

TEST(ShmEngine, NamesAStoppedRankAsLate) {
  const auto arena = std::make_shared<const Arena>(Arena::create().value());
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank) {
    pids.push_back(start_rank(arena, rank, 3, [](Group& group) {
      return reduce_until(group, Code::kTimeout, "late", milliseconds(400));
    }));
  }
  ::usleep(50000);
  ::kill(pids[1], SIGSTOP);
  EXPECT_EQ(exit_code_of(pids[0]), 0);
  EXPECT_EQ(exit_code_of(pids[2]), 0);
  ::kill(pids[1], SIGCONT);
  EXPECT_EQ(exit_code_of(pids[1]), 0);
}

// All begin on one core, and meet until they were seen on two of them.
TEST(ShmEngine, RanksThatWaitSpreadOverTheCoresAndMayStillUseAllOfThem) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::atomic<int> moved = 0;
  testing::run_shm_ranks(4, [&](Group& group) {
    cpu_set_t one;
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    ASSERT_EQ(::sched_setaffinity(0, sizeof allowed, &allowed), 0);
    std::int32_t all_moved = CPU_COUNT(&allowed) < 2 ? 1 : 0;
    const Deadline deadline = testing::soon();
    while (all_moved == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      if (::sched_getcpu() != first) moved = 1;
      all_moved = moved;
      ASSERT_TRUE(
          group.all_reduce({&all_moved, 1, Type::kInt32}, Op::kMin, Order::kOrdered, deadline)
              .ok());
    }
    cpu_set_t after;
    ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
  });
}

TEST(ShmEngine, OpensAnArenaByItsPath) {
  const Arena arena = Arena::create().value();
  const Mapping mine = arena.map(0, 100).value();
  mine.data()[7] = std::byte(42);
  const auto other = Arena::open(arena.path());
  ASSERT_TRUE(other.ok()) << other.error().message();
  EXPECT_EQ(other->map(0, 100).value().data()[7], std::byte(42));
}

TEST(Arena, RefusesMoreThanTheMemoryHolds) {
  const Arena arena = Arena::create().value();
  const auto mapped = arena.map(0, std::size_t{1} << 50);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.error().code(), Code::kOutOfSpace);
  EXPECT_EQ(arena.size().value(), 0U);
}

}  // namespace
}  // namespace tandem::collective
