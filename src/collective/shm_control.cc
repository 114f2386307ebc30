#include "collective/shm_control.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

namespace tandem::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long a sleeper sleeps before it looks whether everybody still lives.
constexpr milliseconds kNap{20};
// Before sleeping: some 25 microseconds of looking when there is a core for every rank, then giving
// the core away again and again. The one that is waited for may need this core, also when there are
// enough of them, and giving it away costs a microsecond or two where sleeping and being woken
// costs ten times as much, and much more on a virtual machine whose idle core the host takes away.
// Some 50 microseconds of this; with a core for every rank, a millisecond.
constexpr int kSpins = 1000;
constexpr int kYields = 100;
constexpr std::chrono::microseconds kGiving{1000};
// Between two looks at who runs where.
constexpr milliseconds kSpreading{2};

// `futex` takes a plain word; the kernel only compares and never writes it.
std::uint32_t* word_of(const std::atomic<std::uint32_t>& value) {
  return reinterpret_cast<std::uint32_t*>(const_cast<std::atomic<std::uint32_t>*>(&value));
}

void sleep_on(const std::atomic<std::uint32_t>& value, std::uint32_t seen,
              steady_clock::duration at_most) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
  const timespec time{static_cast<time_t>(nanoseconds / 1'000'000'000),
                      static_cast<long>(nanoseconds % 1'000'000'000)};
  ::syscall(SYS_futex, word_of(value), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(const std::atomic<std::uint32_t>& value) {
  ::syscall(SYS_futex, word_of(value), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::size_t slots_bytes(int ranks) {
  const std::size_t bytes = sizeof(Head) + sizeof(Slot) * static_cast<std::size_t>(ranks);
  return (bytes + Arena::kPage - 1) / Arena::kPage * Arena::kPage;
}

Code code_of(Fault fault) {
  switch (fault) {
    case Fault::kLost:
    case Fault::kToldLost:
      return Code::kPeerLost;
    case Fault::kLate:
    case Fault::kToldLate:
      return Code::kTimeout;
    default:
      return Code::kInvalidArgument;
  }
}

}  // namespace

std::size_t ShmControl::bytes_for(int ranks) {
  return slots_bytes(ranks) + 2 * kStagingBytes * static_cast<std::size_t>(ranks);
}

Result<ShmControl> ShmControl::open(const Arena& arena, Membership membership) {
  if (membership.size() > kMostRanksOfAHost) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} workers on one host; shared memory serves {} at most",
                             membership.size(), kMostRanksOfAHost));
  }
  TANDEM_ASSIGN(Mapping memory, arena.map(0, bytes_for(membership.size())));
  return ShmControl(std::move(memory), std::move(membership));
}

ShmControl::ShmControl(Mapping memory, Membership membership)
    : memory_(std::move(memory)),
      membership_(std::move(membership)),
      pidfds_(membership_.members.size()),
      spins_(cores() >= membership_.size() ? kSpins : 0),
      giving_(cores() >= membership_.size() ? kGiving : std::chrono::microseconds(0)) {
  slot(membership_.rank).pid.store(static_cast<std::uint32_t>(::getpid()));
}

void ShmControl::learn_pids() {
  for (int rank = 0; rank < membership_.size(); ++rank) {
    Member& member = membership_.members[static_cast<std::size_t>(rank)];
    member.pid = static_cast<pid_t>(slot(rank).pid.load());
    // Now, while it cannot be anybody else's.
    if (rank != membership_.rank) open_pidfd(rank);
  }
}

Slot& ShmControl::slot(int rank) {
  return reinterpret_cast<Slot*>(memory_.data() + sizeof(Head))[rank];
}

std::byte* ShmControl::staging(int rank, std::uint32_t half) {
  return memory_.data() + slots_bytes(membership_.size()) +
         (2 * static_cast<std::size_t>(rank) + half) * kStagingBytes;
}

void ShmControl::advance(Counter& counter, std::uint32_t by) {
  // Sequentially consistent against await(): either it sees the new value or we see the sleeper.
  counter.value.store(counter.value.load(std::memory_order_relaxed) + by);
  if (counter.sleepers.load() != 0) wake(counter.value);
}

Status ShmControl::await(int peer, const Counter& counter, std::uint32_t target, Deadline deadline,
                         const std::string& doing) {
  for (int i = 0; i < spins_; ++i) {
    if (reached(counter, target)) return {};
    __builtin_ia32_pause();
  }
  const auto began = steady_clock::now(), until = began + giving_;
  spread(began);
  for (int i = 0; i < kYields || steady_clock::now() < until; ++i) {
    if (reached(counter, target)) return {};
    ::sched_yield();
  }
  auto& sleepers = const_cast<std::atomic<std::uint32_t>&>(counter.sleepers);
  while (!reached(counter, target)) {
    TANDEM_TRY(status());
    const auto now = steady_clock::now();
    if (now >= deadline) {
      const double waited = std::chrono::duration<double>(now - began).count();
      return fail(Fault::kLate, peer,
                  fmt::format("has not come to {} within {:.1f} s; it is late, not dead: stopped, "
                              "or on a machine with too much to do?",
                              doing, waited));
    }
    sleepers.fetch_add(1);
    const std::uint32_t seen = counter.value.load();
    if (static_cast<std::int32_t>(seen - target) < 0)
      sleep_on(counter.value, seen, std::min<steady_clock::duration>(kNap, deadline - now));
    sleepers.fetch_sub(1);
    if (reached(counter, target)) break;
    for (int rank = 0; rank < membership_.size(); ++rank) {
      if (rank != membership_.rank && is_dead(rank))
        return fail(Fault::kLost, rank, fmt::format("ended during {}", doing));
    }
  }
  return {};
}

// Who waits gives its core away and looks busy all the same, so the system may leave three ranks on
// one core and one on another for hundreds of milliseconds. Of those on a core, the last one moves:
// it may run on its old core again at once, as far as the system is concerned.
void ShmControl::spread(steady_clock::time_point now) {
  const int core = ::sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE) return;
  std::atomic<std::uint32_t>& seen = slot(membership_.rank).core;
  const auto number = static_cast<std::uint32_t>(core);
  if (seen.load(std::memory_order_relaxed) != number) seen.store(number, std::memory_order_relaxed);
  if (now < next_spread_) return;
  next_spread_ = now + kSpreading;
  std::array<int, CPU_SETSIZE> ranks{};
  for (int rank = 0; rank < membership_.size(); ++rank) {
    const std::uint32_t at = slot(rank).core.load(std::memory_order_relaxed);
    if (at == number && rank > membership_.rank) return;
    if (at < ranks.size()) ++ranks[at];
  }
  cpu_set_t allowed, wanted;
  CPU_ZERO(&wanted);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int least = core;
  for (int other = 0; other < CPU_SETSIZE; ++other) {
    if (CPU_ISSET(other, &allowed) &&
        ranks[static_cast<std::size_t>(other)] < ranks[static_cast<std::size_t>(least)])
      least = other;
  }
  if (ranks[static_cast<std::size_t>(core)] - ranks[static_cast<std::size_t>(least)] < 2) return;
  CPU_SET(least, &wanted);
  if (::sched_setaffinity(0, sizeof wanted, &wanted) == 0)
    (void)::sched_setaffinity(0, sizeof allowed, &allowed);
}

// A process that was never there cannot be told from one that is gone, so the pid must be known: by
// whoever made the group, or written by the process itself.
bool ShmControl::is_dead(int rank) {
  const Descriptor& pidfd = pidfds_[static_cast<std::size_t>(rank)];
  if (!pidfd.is_open()) {
    if (pid_of(rank) == 0) return false;
    if (!open_pidfd(rank)) return errno == ESRCH;
  }
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

pid_t ShmControl::pid_of(int rank) const {
  const auto* slots = reinterpret_cast<const Slot*>(memory_.data() + sizeof(Head));
  const auto written = static_cast<pid_t>(slots[rank].pid.load());
  return written != 0 ? written : membership_.members[static_cast<std::size_t>(rank)].pid;
}

bool ShmControl::open_pidfd(int rank) {
  Descriptor& pidfd = pidfds_[static_cast<std::size_t>(rank)];
  pidfd = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_of(rank), 0)));
  return pidfd.is_open();
}

Error ShmControl::fail(Fault fault, int culprit, const std::string& words) {
  auto none = static_cast<std::uint32_t>(Fault::kNone);
  if (head().fault.compare_exchange_strong(none,
                                           static_cast<std::uint32_t>(Fault::kBeingWritten))) {
    head().culprit = static_cast<std::uint32_t>(culprit);
    const std::size_t length = std::min(words.size(), head().words.size() - 1);
    std::memcpy(head().words.data(), words.data(), length);
    head().words[length] = '\0';
    head().fault.store(static_cast<std::uint32_t>(fault));
  }
  for (int rank = 0; rank < membership_.size(); ++rank) {
    for (const Counter* counter :
         {&slot(rank).arrivals, &slot(rank).ready, &slot(rank).done, &slot(rank).published})
      wake(counter->value);
  }
  const Status written = status();
  if (!written.ok()) return written.error();
  // Another rank is just writing its own; it cannot be waited for, as it may die there.
  return Error(code_of(fault), fmt::format("{} {}", membership_.name(culprit), words));
}

std::optional<int> ShmControl::culprit() const {
  const auto fault = static_cast<Fault>(head().fault.load());
  if (fault != Fault::kLost && fault != Fault::kLate) return std::nullopt;
  return std::clamp(static_cast<int>(head().culprit), 0, membership_.size() - 1);
}

Status ShmControl::status() const {
  const auto fault = static_cast<Fault>(head().fault.load());
  if (fault == Fault::kNone || fault == Fault::kBeingWritten) return {};
  Membership named = membership_;
  const int culprit = std::clamp(static_cast<int>(head().culprit), 0, named.size() - 1);
  named.members[static_cast<std::size_t>(culprit)].pid = pid_of(culprit);
  const auto& words = head().words;
  const std::string text(words.data(), ::strnlen(words.data(), words.size()));
  return Error(code_of(fault), fmt::format("{} {}", named.name(culprit), text));
}

}  // namespace tandem::collective
