#include "collective/shm_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "collective/pair_reducer.h"

namespace tandem::collective {
namespace {

// Up to here every rank sums everything by itself, which takes one meeting instead of two. Measured
// with 2 and 4 ranks: even at 8 to 16 KiB.
constexpr std::size_t kSmallBytes = 8192;
// Written to the peers while it is in the cache.
constexpr std::size_t kBlockBytes = 16384;
constexpr std::size_t kLine = 64;

enum class Round : std::uint64_t { kBarrier = 1, kExchange, kSmall, kInPlace };

// What a rank publishes when it arrives (Slot::notes).
struct Note {
  Round round = Round::kBarrier;
  std::uint64_t what = 0;    // Op, order and type of a reduction.
  std::uint64_t count = 0;   // Elements of a reduction.
  std::uint64_t offset = 0;  // Of its operand in the arena.
  std::uint64_t more = 0;    // Whether this rank has another round of the exchange.
};
static_assert(sizeof(Note) <= sizeof(Slot::notes[0]));

constexpr std::uint64_t kNotInArena = ~std::uint64_t{0};

std::string describe(const Note& note) {
  switch (note.round) {
    case Round::kBarrier:
      return "a meeting";
    case Round::kExchange:
      return "an exchange";
    case Round::kSmall:
    case Round::kInPlace:
      return fmt::format("an all-reduce of {} elements of type {}", note.count, note.what & 0xff);
  }
  return "something unknown";
}

// Sums of two ranks that stay in the third-level cache or are taken in pieces, and small ones of
// any number, are made twice rather than waited for: docs/decisions/0005-partial-sums.md.
constexpr std::size_t kMostOfTwo = 1 << 20, kSmall = 1 << 15;

Share share_of(const ReducePlan& plan, int ranks) {
  const bool two = ranks == 2 && (plan.in_pieces || plan.floats <= kMostOfTwo);
  return two || plan.floats <= kSmall ? Share::kWhole : Share::kSlices;
}

bool agree(const Note& a, const Note& b) {
  return a.round == b.round && a.what == b.what && a.count == b.count;
}

class SharedMemory final : public ShmEngine {
 public:
  SharedMemory(std::shared_ptr<const Arena> arena, ShmControl control)
      : arena_(std::move(arena)),
        control_(std::move(control)),
        used_(ShmControl::bytes_for(control_.membership().size())) {}

  std::string_view name() const override { return "shm"; }
  const Membership& membership() const override { return control_.membership(); }
  Traffic traffic() const override { return traffic_; }
  bool checks_calls() const override { return true; }
  Result<std::unique_ptr<Reducer>> make_reducer(ReducePlan plan, Deadline deadline) override;
  ShmControl& control() override { return control_; }

  void give_up(Code why, int culprit) override {
    (void)control_.fail(why == Code::kTimeout ? Fault::kToldLate : Fault::kToldLost, culprit,
                        "gave the group up");
  }
  Result<std::byte*> map_common(std::size_t bytes, Deadline deadline) override;
  Result<std::unique_ptr<ShmReducer>> make_shared_reducer(ReducePlan plan, ShmReducerMemory memory,
                                                          Deadline deadline) override;

  Status join(Deadline deadline) {
    TANDEM_TRY(meet({}, deadline));
    ++arrivals_;
    control_.learn_pids();
    return {};
  }

  Status exchange(std::span<const Send> sends, std::span<const Receive> receives,
                  Deadline deadline) override;
  Result<std::span<std::byte>> allocate(std::size_t bytes, Deadline deadline) override;
  std::optional<Status> all_reduce(const Operand& operand, Op op, Order order,
                                   Deadline deadline) override;

 private:
  struct Region {
    std::size_t offset;
    Mapping memory;
  };

  int rank() const { return membership().rank; }
  int size() const { return membership().size(); }
  const Note& note_of(int peer) {
    return *reinterpret_cast<const Note*>(control_.slot(peer).notes[half()].data());
  }
  std::uint32_t half() const { return arrivals_ % 2; }

  Status publish(const Note& note, Deadline deadline);
  Status meet(const Note& note, Deadline deadline);
  Status differ();
  std::uint64_t offset_of(const Operand& operand) const;
  std::byte* at(std::uint64_t offset) const;
  Status reduce_small(const Operand& operand, Op op, Order order, const Note& note,
                      Deadline deadline);
  Status reduce_in_place(const Operand& operand, Op op, Order order, Note note, Deadline deadline);

  const std::shared_ptr<const Arena> arena_;
  ShmControl control_;
  std::size_t used_;  // Of the arena.
  std::vector<Region> regions_;
  std::uint32_t arrivals_ = 0;  // Ours so far; the staging half of the current round.
  Traffic traffic_;
};

// Arrives and waits until all have; the notes and staging halves of this round are then to be read,
// and stay until the rank's next but one arrival, which it cannot reach before we have arrived
// again.
Status SharedMemory::publish(const Note& note, Deadline deadline) {
  TANDEM_TRY(control_.status());
  Slot& mine = control_.slot(rank());
  std::memcpy(mine.notes[half()].data(), &note, sizeof note);
  control_.advance(mine.arrivals);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    TANDEM_TRY(control_.await(peer, control_.slot(peer).arrivals, arrivals_ + 1, deadline,
                              describe(note)));
  }
  return {};
}

// Whoever agrees with the fewest is to blame; with two ranks, the second.
Status SharedMemory::differ() {
  const auto alike = [this](int rank) {
    int count = 0;
    for (int peer = 0; peer < size(); ++peer) count += agree(note_of(rank), note_of(peer)) ? 1 : 0;
    return count;
  };
  int culprit = size() - 1, usual = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if (alike(peer) < alike(culprit)) culprit = peer;
    if (alike(peer) > alike(usual)) usual = peer;
  }
  return control_.fail(Fault::kMisuse, culprit,
                       fmt::format("calls {} where worker {} calls {}; every rank must make the "
                                   "same calls in the same order",
                                   describe(note_of(culprit)), usual, describe(note_of(usual))));
}

// publish(), and all must have called the same.
Status SharedMemory::meet(const Note& note, Deadline deadline) {
  TANDEM_TRY(publish(note, deadline));
  for (int peer = 0; peer < size(); ++peer) {
    if (!agree(note_of(peer), note)) return differ();
  }
  return {};
}

// In rounds: each rank's staging half has an equal section for every destination, which begins with
// the number of bytes in it.
Status SharedMemory::exchange(std::span<const Send> sends, std::span<const Receive> receives,
                              Deadline deadline) {
  const std::size_t section = kStagingBytes / static_cast<std::size_t>(size()) / kLine * kLine,
                    room = section - kLine;
  std::vector<std::size_t> sent(sends.size()), received(receives.size());
  for (bool more = true; more;) {
    Note note{.round = Round::kExchange};
    std::byte* staging = control_.staging(rank(), half());
    for (int peer = 0; peer < size(); ++peer)
      std::memset(staging + static_cast<std::size_t>(peer) * section, 0, 8);
    for (std::size_t i = 0; i < sends.size(); ++i) {
      std::byte* to = staging + static_cast<std::size_t>(sends[i].to) * section;
      std::uint64_t filled = 0;
      std::memcpy(&filled, to, 8);
      const std::size_t left = sends[i].bytes.size() - sent[i];
      const std::size_t now = std::min(left, room - static_cast<std::size_t>(filled));
      if (now > 0) std::memcpy(to + kLine + filled, sends[i].bytes.data() + sent[i], now);
      filled += now;
      std::memcpy(to, &filled, 8);
      sent[i] += now;
      if (now < left) note.more = 1;
      traffic_.sent += now;
    }
    TANDEM_TRY(meet(note, deadline));
    more = false;
    for (int peer = 0; peer < size(); ++peer) {
      more = more || note_of(peer).more != 0;
      if (peer == rank()) continue;
      const std::byte* from =
          control_.staging(peer, half()) + static_cast<std::size_t>(rank()) * section;
      std::uint64_t filled = 0, taken = 0;
      std::memcpy(&filled, from, 8);
      for (std::size_t i = 0; i < receives.size(); ++i) {
        if (receives[i].from != peer) continue;
        const std::size_t now = std::min<std::size_t>(receives[i].bytes.size() - received[i],
                                                      static_cast<std::size_t>(filled - taken));
        if (now > 0) std::memcpy(receives[i].bytes.data() + received[i], from + kLine + taken, now);
        received[i] += now;
        taken += now;
        if (received[i] < receives[i].bytes.size()) break;
      }
      traffic_.received += taken;
      if (taken != filled) {
        return control_.fail(Fault::kMisuse, peer,
                             fmt::format("sends more bytes than worker {} expects", rank()));
      }
    }
    ++arrivals_;
  }
  for (std::size_t i = 0; i < receives.size(); ++i) {
    if (received[i] == receives[i].bytes.size()) continue;
    return control_.fail(Fault::kMisuse, receives[i].from,
                         fmt::format("sends {} of the {} bytes that worker {} expects", received[i],
                                     receives[i].bytes.size(), rank()));
  }
  return {};
}

Result<std::byte*> SharedMemory::map_common(std::size_t bytes, Deadline deadline) {
  TANDEM_TRY(meet({.round = Round::kBarrier, .what = 1, .count = bytes}, deadline));
  ++arrivals_;
  auto memory = arena_->map(used_, bytes);
  // The others have theirs and would wait.
  if (!memory.ok()) {
    const Error& reason = memory.error();
    return control_.fail(Fault::kToldLost, rank(), fmt::format("gives up: {}", reason.message()));
  }
  regions_.push_back({used_, std::move(memory).value()});
  used_ += (bytes + Arena::kPage - 1) / Arena::kPage * Arena::kPage;
  return regions_.back().memory.data();
}

Result<std::span<std::byte>> SharedMemory::allocate(std::size_t bytes, Deadline deadline) {
  const std::size_t stride = (bytes + Arena::kPage - 1) / Arena::kPage * Arena::kPage;
  TANDEM_ASSIGN(std::byte* const all,
                map_common(stride * static_cast<std::size_t>(size()), deadline));
  return std::span(all + stride * static_cast<std::size_t>(rank()), bytes);
}

// The partials in lane order, then the result.
Result<std::unique_ptr<Reducer>> SharedMemory::make_reducer(ReducePlan plan, Deadline deadline) {
  ShmReducerMemory memory;
  memory.partials = partials_of(ends_of(plan, size()));
  if (plan.in_pieces && plan.floats <= kSmall && size() == 2 && memory.partials.size() == 2) {
    const std::size_t stride = (plan.floats + kLine - 1) / kLine * kLine;
    TANDEM_ASSIGN(std::byte* const both, map_common(2 * stride * sizeof(float), deadline));
    auto* const first = reinterpret_cast<float*>(both);
    return make_pair_reducer(control_, std::move(plan), {first, first + stride});
  }
  memory.targets.push_back({{0, plan.lanes}, nullptr});
  memory.share = share_of(plan, size());
  TANDEM_ASSIGN(auto reducer, make_shared_reducer(std::move(plan), std::move(memory), deadline));
  return std::unique_ptr<Reducer>(std::move(reducer));
}

Result<std::unique_ptr<ShmReducer>> SharedMemory::make_shared_reducer(ReducePlan plan,
                                                                      ShmReducerMemory memory,
                                                                      Deadline deadline) {
  const std::size_t stride = (plan.floats + kLine - 1) / kLine * kLine;
  // A sum for ourselves lies with us: a place for each rank.
  const bool whole = memory.share == Share::kWhole;
  std::size_t sums = whole ? static_cast<std::size_t>(size()) : memory.targets.size();
  if (whole && plan.in_pieces) sums = 0;
  const std::size_t sets = sums == 0 && plan.floats <= kSmall ? 2 : 1;
  const std::size_t parts = memory.partials.size() * sets + sums;
  TANDEM_ASSIGN(std::byte* const all, map_common(parts * stride * sizeof(float), deadline));
  auto* next = reinterpret_cast<float*>(all);
  memory.sets.resize(sets);
  for (std::vector<float*>& set : memory.sets) {
    for (std::size_t i = 0; i < memory.partials.size(); ++i, next += stride) set.push_back(next);
  }
  if (whole) next += stride * static_cast<std::size_t>(rank());
  for (ShmTarget& target : memory.targets) {
    target.sum = sums == 0 ? nullptr : next;
    next += stride;
  }
  return make_shm_reducer(control_, std::move(plan), std::move(memory));
}

std::uint64_t SharedMemory::offset_of(const Operand& operand) const {
  const auto* begin = static_cast<const std::byte*>(operand.data);
  for (const Region& region : regions_) {
    const std::byte* first = region.memory.data();
    if (begin >= first && begin + operand.bytes() <= first + region.memory.size())
      return region.offset + static_cast<std::size_t>(begin - first);
  }
  return kNotInArena;
}

std::byte* SharedMemory::at(std::uint64_t offset) const {
  for (const Region& region : regions_) {
    if (offset >= region.offset && offset < region.offset + region.memory.size())
      return region.memory.data() + (offset - region.offset);
  }
  return nullptr;
}

std::optional<Status> SharedMemory::all_reduce(const Operand& operand, Op op, Order order,
                                               Deadline deadline) {
  const std::uint64_t offset = offset_of(operand);
  const bool small = operand.bytes() <= kSmallBytes;
  if (!small && offset == kNotInArena) return std::nullopt;
  const Note note{.round = small ? Round::kSmall : Round::kInPlace,
                  .what = static_cast<std::uint64_t>(operand.type) |
                          static_cast<std::uint64_t>(op) << 8 |
                          static_cast<std::uint64_t>(order) << 16,
                  .count = operand.count,
                  .offset = offset};
  const std::uint64_t others = static_cast<std::uint64_t>(size() - 1);
  traffic_.sent += 2 * operand.bytes() * others / static_cast<std::uint64_t>(size());
  traffic_.received += 2 * operand.bytes() * others / static_cast<std::uint64_t>(size());
  return small ? reduce_small(operand, op, order, note, deadline)
               : reduce_in_place(operand, op, order, note, deadline);
}

Status SharedMemory::reduce_small(const Operand& operand, Op op, Order order, const Note& note,
                                  Deadline deadline) {
  if (operand.count > 0)
    std::memcpy(control_.staging(rank(), half()), operand.data, operand.bytes());
  TANDEM_TRY(meet(note, deadline));
  std::array<const std::byte*, kMostRanksOfAHost> sources;
  for (int peer = 0; peer < size(); ++peer)
    sources[static_cast<std::size_t>(peer)] = control_.staging(peer, half());
  reduce(operand.type, op, order, 0, std::span(sources).first(static_cast<std::size_t>(size())),
         static_cast<std::byte*>(operand.data), operand.count);
  ++arrivals_;
  return {};
}

// Nobody else reads or writes our slice until the second meeting.
Status SharedMemory::reduce_in_place(const Operand& operand, Op op, Order order, Note note,
                                     Deadline deadline) {
  TANDEM_TRY(meet(note, deadline));
  const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
  std::array<std::byte*, kMostRanksOfAHost> buffers;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    buffers[peer] = at(note_of(static_cast<int>(peer)).offset);
    if (buffers[peer] == nullptr) {
      return control_.fail(Fault::kMisuse, static_cast<int>(peer),
                           "reduces memory that is not in the arena");
    }
  }
  ++arrivals_;
  const std::size_t element = size_of(operand.type), line = kLine / element;
  const std::size_t lines = (operand.count + line - 1) / line;
  const std::size_t begin = std::min(operand.count, lines * own / ranks * line),
                    end = std::min(operand.count, lines * (own + 1) / ranks * line);
  std::array<const std::byte*, kMostRanksOfAHost> sources;
  const std::size_t block = kBlockBytes / element;
  for (std::size_t from = begin; from < end; from += block) {
    const std::size_t count = std::min(block, end - from);
    for (std::size_t peer = 0; peer < ranks; ++peer) sources[peer] = buffers[peer] + from * element;
    std::byte* to = buffers[own] + from * element;
    // A ring's slice begins with the neighbour of the one who ends up with it.
    reduce(operand.type, op, order, (own + 1) % ranks, std::span(sources).first(ranks), to, count);
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (peer != own) std::memcpy(buffers[peer] + from * element, to, count * element);
    }
  }
  TANDEM_TRY(meet(note, deadline));
  ++arrivals_;
  return {};
}

}  // namespace

Result<std::unique_ptr<ShmEngine>> make_shm_engine(std::shared_ptr<const Arena> arena,
                                                   Membership membership, Deadline deadline) {
  TANDEM_ASSIGN(ShmControl control, ShmControl::open(*arena, std::move(membership)));
  auto engine = std::make_unique<SharedMemory>(std::move(arena), std::move(control));
  TANDEM_TRY(engine->join(deadline));
  return std::unique_ptr<ShmEngine>(std::move(engine));
}

}  // namespace tandem::collective
