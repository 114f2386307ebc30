#include "collective/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tandem::collective {
namespace {

const Membership kAlone;

// Up to here everyone sends everything to everyone, which takes one exchange instead of two.
constexpr std::size_t kSmallBytes = 4096;

struct Slice {
  std::size_t begin, end;  // In elements.
};

Slice slice_of(std::size_t count, std::size_t element, int rank, int size) {
  const std::size_t line = 64 / element, lines = (count + line - 1) / line;
  const auto edge = [&](int r) {
    return std::min(count,
                    lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(size) * line);
  };
  return {edge(rank), edge(rank + 1)};
}

}  // namespace

enum class Group::Kind : std::uint64_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kGather,
  kBarrier,
};

// What every rank must have called alike.
struct Group::Call {
  Kind kind = Kind::kBarrier;
  std::uint64_t bytes = 0;
  std::uint64_t how = 0;  // Type, operation and order; or the root.
  std::uint64_t number = 0;

  friend bool operator==(const Call&, const Call&) = default;

  static std::uint64_t how_of(Type type, Op op, Order order) {
    return static_cast<std::uint64_t>(type) | static_cast<std::uint64_t>(op) << 8 |
           static_cast<std::uint64_t>(order) << 16;
  }

  std::string describe() const {
    constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                      "broadcast",  "gather",         "barrier"};
    const auto index = static_cast<std::size_t>(kind);
    return fmt::format("{} of {} bytes (call {}, variant {})",
                       index < std::size(kNames) ? kNames[index] : "unknown", bytes, number, how);
  }
};

Group::Group() = default;

Group::Group(std::unique_ptr<Engine> engine, std::shared_ptr<void> keep)
    : keep_(std::move(keep)), engine_(std::move(engine)) {
  if (engine_ != nullptr && engine_->membership().size() == 1) engine_ = nullptr;
}

const Membership& Group::membership() const {
  return engine_ == nullptr ? kAlone : engine_->membership();
}

void Group::give_up(Code why) {
  if (engine_ != nullptr) engine_->give_up(why, rank());
}

std::string_view Group::engine() const {
  return engine_ == nullptr ? "none" : engine_->name();
}

Traffic Group::traffic() const {
  return engine_ == nullptr ? Traffic{} : engine_->traffic();
}

std::byte* Group::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

Result<std::span<std::byte>> Group::allocate(std::size_t bytes, Deadline deadline) {
  if (engine_ != nullptr) return engine_->allocate(bytes, deadline);
  return Error(Code::kInvalidArgument, "a group of one has no shared memory; use your own");
}

Result<std::unique_ptr<Reducer>> Group::make_reducer(ReducePlan plan, Deadline deadline) {
  if (engine_ != nullptr) return engine_->make_reducer(std::move(plan), deadline);
  return make_local_reducer(std::move(plan));
}

// Everyone tells everyone what it calls. All see the same list, so all blame the same rank: the one
// that agrees with the fewest, and the last of these.
Status Group::agree(const Call& call, Deadline deadline) {
  TANDEM_TRY(broken_);
  const int ranks = size();
  std::vector<Call> calls(static_cast<std::size_t>(ranks));
  calls[static_cast<std::size_t>(rank())] = call;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank()) continue;
    sends.push_back({peer, std::as_bytes(std::span(&calls[static_cast<std::size_t>(rank())], 1))});
    receives.push_back(
        {peer, std::as_writable_bytes(std::span(&calls[static_cast<std::size_t>(peer)], 1))});
  }
  TANDEM_TRY(engine_->exchange(sends, receives, deadline));
  if (std::all_of(calls.begin(), calls.end(), [&](const Call& c) { return c == calls[0]; }))
    return {};
  const auto alike = [&](const Call& c) { return std::count(calls.begin(), calls.end(), c); };
  std::size_t culprit = calls.size() - 1, usual = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (alike(calls[i]) < alike(calls[culprit])) culprit = i;
    if (alike(calls[i]) > alike(calls[usual])) usual = i;
  }
  broken_ = Error(Code::kInvalidArgument,
                  fmt::format("{} calls {} where worker {} calls {}; every rank must make the same "
                              "calls in the same order",
                              membership().name(static_cast<int>(culprit)),
                              calls[culprit].describe(), usual, calls[usual].describe()));
  return broken_;
}

Status Group::all_reduce(const Operand& operand, Op op, Order order, Deadline deadline) {
  if (engine_ == nullptr) return {};
  TANDEM_TRY(broken_);
  const Call call{Kind::kAllReduce, operand.bytes(), Call::how_of(operand.type, op, order),
                  ++calls_};
  const bool checks = engine_->checks_calls();
  if (!checks) TANDEM_TRY(agree(call, deadline));
  if (const auto done = engine_->all_reduce(operand, op, order, deadline)) return *done;
  if (checks) TANDEM_TRY(agree(call, deadline));
  return operand.bytes() <= kSmallBytes ? reduce_by_all(operand, op, order, deadline)
                                        : reduce_by_slices(operand, op, order, deadline);
}

Status Group::reduce_by_all(const Operand& operand, Op op, Order order, Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
  const std::size_t bytes = operand.bytes();
  std::byte* others = scratch(bytes * ranks);
  const std::span<std::byte> mine(static_cast<std::byte*>(operand.data), bytes);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<const std::byte*> sources(ranks);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    sources[peer] = peer == own ? mine.data() : others + peer * bytes;
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), mine});
    receives.push_back({static_cast<int>(peer), {others + peer * bytes, bytes}});
  }
  TANDEM_TRY(engine_->exchange(sends, receives, deadline));
  reduce(operand.type, op, order, 0, sources, mine.data(), operand.count);
  return {};
}

// Each rank combines its slice of everybody's buffer and sends it to all.
Status Group::reduce_by_slices(const Operand& operand, Op op, Order order, Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
  const std::size_t element = size_of(operand.type);
  auto* data = static_cast<std::byte*>(operand.data);
  const auto bytes_of = [&](std::size_t peer) {
    const Slice slice = slice_of(operand.count, element, static_cast<int>(peer), size());
    return std::span(data + slice.begin * element, (slice.end - slice.begin) * element);
  };
  const std::span<std::byte> mine = bytes_of(own);
  std::byte* others = scratch(mine.size() * ranks);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<const std::byte*> sources(ranks);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    sources[peer] = peer == own ? mine.data() : others + peer * mine.size();
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), bytes_of(peer)});
    receives.push_back({static_cast<int>(peer), {others + peer * mine.size(), mine.size()}});
  }
  TANDEM_TRY(engine_->exchange(sends, receives, deadline));
  reduce(operand.type, op, order, (own + 1) % ranks, sources, mine.data(), mine.size() / element);
  for (Send& send : sends) send.bytes = mine;
  for (Receive& receive : receives)
    receive.bytes = bytes_of(static_cast<std::size_t>(receive.from));
  return engine_->exchange(sends, receives, deadline);
}

Status Group::reduce_scatter(const Operand& operand, std::span<std::byte> mine, Op op, Order order,
                             Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
  TANDEM_CHECK(mine.size() * ranks == operand.bytes());
  auto* data = static_cast<std::byte*>(operand.data);
  if (engine_ == nullptr) {
    if (!mine.empty()) std::memmove(mine.data(), data, mine.size());
    return {};
  }
  TANDEM_TRY(agree(
      {Kind::kReduceScatter, operand.bytes(), Call::how_of(operand.type, op, order), ++calls_},
      deadline));
  std::byte* others = scratch(operand.bytes());
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<const std::byte*> sources(ranks);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    sources[peer] = peer == own ? data + own * mine.size() : others + peer * mine.size();
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), {data + peer * mine.size(), mine.size()}});
    receives.push_back({static_cast<int>(peer), {others + peer * mine.size(), mine.size()}});
  }
  TANDEM_TRY(engine_->exchange(sends, receives, deadline));
  reduce(operand.type, op, order, (own + 1) % ranks, sources, mine.data(),
         mine.size() / size_of(operand.type));
  return {};
}

Status Group::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                         Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
  TANDEM_CHECK(all.size() == mine.size() * ranks);
  if (!mine.empty()) std::memmove(all.data() + own * mine.size(), mine.data(), mine.size());
  if (engine_ == nullptr) return {};
  TANDEM_TRY(agree({Kind::kAllGather, mine.size(), 0, ++calls_}, deadline));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), mine});
    receives.push_back({static_cast<int>(peer), all.subspan(peer * mine.size(), mine.size())});
  }
  return engine_->exchange(sends, receives, deadline);
}

Status Group::all_to_all(std::span<const std::byte> from, std::span<std::byte> to,
                         Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
  TANDEM_CHECK(from.size() == to.size() && from.size() % ranks == 0);
  const std::size_t block = from.size() / ranks;
  if (block > 0) std::memmove(to.data() + own * block, from.data() + own * block, block);
  if (engine_ == nullptr) return {};
  TANDEM_TRY(agree({Kind::kAllToAll, from.size(), 0, ++calls_}, deadline));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), from.subspan(peer * block, block)});
    receives.push_back({static_cast<int>(peer), to.subspan(peer * block, block)});
  }
  return engine_->exchange(sends, receives, deadline);
}

Status Group::broadcast(std::span<std::byte> bytes, int root, Deadline deadline) {
  TANDEM_CHECK(root >= 0 && root < size());
  if (engine_ == nullptr) return {};
  TANDEM_TRY(agree({Kind::kBroadcast, bytes.size(), static_cast<std::uint64_t>(root), ++calls_},
                   deadline));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  if (rank() != root) receives.push_back({root, bytes});
  for (int peer = 0; peer < size() && rank() == root; ++peer) {
    if (peer != root) sends.push_back({peer, bytes});
  }
  return engine_->exchange(sends, receives, deadline);
}

Status Group::gather(std::span<const std::byte> mine, std::span<std::byte> all, int root,
                     Deadline deadline) {
  TANDEM_CHECK(root >= 0 && root < size());
  TANDEM_CHECK(rank() != root || all.size() == mine.size() * static_cast<std::size_t>(size()));
  const auto block = [&](int peer) {
    return all.subspan(static_cast<std::size_t>(peer) * mine.size(), mine.size());
  };
  if (rank() == root && !mine.empty()) std::memmove(block(root).data(), mine.data(), mine.size());
  if (engine_ == nullptr) return {};
  TANDEM_TRY(
      agree({Kind::kGather, mine.size(), static_cast<std::uint64_t>(root), ++calls_}, deadline));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  if (rank() != root) sends.push_back({root, mine});
  for (int peer = 0; peer < size() && rank() == root; ++peer) {
    if (peer != root) receives.push_back({peer, block(peer)});
  }
  return engine_->exchange(sends, receives, deadline);
}

Status Group::barrier(Deadline deadline) {
  if (engine_ == nullptr) return {};
  return agree({Kind::kBarrier, 0, 0, ++calls_}, deadline);
}

}  // namespace tandem::collective
