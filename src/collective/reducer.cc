#include "collective/reducer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "collective/reduce.h"

namespace tandem::collective {
namespace {

constexpr std::size_t kLine = 16;  // Floats of a cache line.

class LocalReducer final : public Reducer {
 public:
  explicit LocalReducer(const ReducePlan& plan) : memory_(plan.floats) {}

  std::size_t partials() const override { return 1; }
  std::span<float> partial(std::size_t) override { return memory_; }
  Status ready(std::size_t) override { return {}; }
  Result<std::span<const float>> sum(Deadline) override { return std::span<const float>(memory_); }
  Status release(Deadline) override { return {}; }

 private:
  std::vector<float> memory_;
};

// The sum over a node of the lane tree, in blocks that stay in the first-level cache.
class NodeSum {
 public:
  static constexpr std::size_t kBlock = 1024;

  NodeSum(std::span<const Partial> partials, std::span<const float* const> sources)
      : partials_(partials), sources_(sources) {}

  // Floats [begin, begin + count) of the node, which covers whole partials from number `first` on;
  // `first` is then past them. The result is in `into` or where it lies already.
  const float* sum(LaneRange node, std::size_t& first, std::size_t begin, std::size_t count,
                   float* into) {
    if (partials_[first].lanes == node) return sources_[first++] + begin;
    const std::int64_t middle = node.begin + left_lanes(node.size());
    std::array<float, kBlock> left, right;
    const float* a = sum({node.begin, middle}, first, begin, count, left.data());
    const float* b = sum({middle, node.end}, first, begin, count, right.data());
    const std::array<const std::byte*, 2> both = {reinterpret_cast<const std::byte*>(a),
                                                  reinterpret_cast<const std::byte*>(b)};
    reduce(Type::kFloat32, Op::kSum, Order::kOrdered, 0, both, reinterpret_cast<std::byte*>(into),
           count);
    return into;
  }

 private:
  const std::span<const Partial> partials_;
  const std::span<const float* const> sources_;
};

}  // namespace

LaneEnds ends_of(const ReducePlan& plan, int ranks) {
  return plan.ends.empty() ? equal_shares(plan.lanes, ranks) : plan.ends;
}

Result<std::span<const float>> Reducer::finish(Deadline deadline) {
  TANDEM_ASSIGN(const std::span<const float> result, sum(deadline));
  TANDEM_TRY(release(deadline));
  return result;
}

Status Reducer::gather(Deadline deadline) {
  TANDEM_ASSIGN(gathered_, sum(deadline));
  return {};
}

Piece Reducer::piece(const Bucket& at, std::span<float>) {
  return Piece({gathered_.data() + at.begin}, at.end - at.begin);
}

Piece::Piece(std::span<const float* const> arrays, std::size_t begin, std::size_t count)
    : part_count(arrays.size()), floats(count) {
  TANDEM_CHECK(arrays.size() <= kMostParts);
  for (std::size_t i = 0; i < part_count; ++i) parts[i] = arrays[i] + begin;
}

void copy_sum(const Piece& piece, std::span<float> to) {
  std::array<const std::byte*, Piece::kMostParts> bytes;
  for (std::size_t i = 0; i < piece.part_count; ++i)
    bytes[i] = reinterpret_cast<const std::byte*>(piece.parts[i]);
  reduce(Type::kFloat32, Op::kSum, Order::kOrdered, 0, std::span(bytes).first(piece.part_count),
         reinterpret_cast<std::byte*>(to.data()), piece.floats);
}

std::unique_ptr<Reducer> make_local_reducer(ReducePlan plan) {
  return std::make_unique<LocalReducer>(plan);
}

Bucket slice_of(const Bucket& bucket, int rank, int size) {
  const std::size_t count = bucket.end - bucket.begin, lines = (count + kLine - 1) / kLine;
  const auto edge = [&](int r) {
    const std::size_t line = lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(size);
    return bucket.begin + std::min(count, line * kLine);
  };
  return {edge(rank), edge(rank + 1)};
}

// One partial for each lane, or for equal nodes: then the tree over partials is the lanes' tree.
bool is_plain(LaneRange node, std::span<const Partial> partials) {
  const std::int64_t each = partials[0].lanes.size();
  return (each & (each - 1)) == 0 &&
         each * static_cast<std::int64_t>(partials.size()) == node.size() &&
         std::all_of(partials.begin(), partials.end(),
                     [&](const Partial& partial) { return partial.lanes.size() == each; });
}

void add_partials(LaneRange node, std::span<const Partial> partials,
                  std::span<const float* const> sources, const Bucket& at, float* to) {
  constexpr std::size_t kMostPlain = 64;
  if (is_plain(node, partials) && partials.size() <= kMostPlain) {
    std::array<const std::byte*, kMostPlain> plain;
    for (std::size_t i = 0; i < sources.size(); ++i)
      plain[i] = reinterpret_cast<const std::byte*>(sources[i] + at.begin);
    reduce(Type::kFloat32, Op::kSum, Order::kOrdered, 0, std::span(plain).first(sources.size()),
           reinterpret_cast<std::byte*>(to), at.end - at.begin);
    return;
  }
  NodeSum sum(partials, sources);
  for (std::size_t begin = at.begin; begin < at.end; begin += NodeSum::kBlock) {
    const std::size_t count = std::min(NodeSum::kBlock, at.end - begin);
    std::size_t first = 0;
    float* into = to + (begin - at.begin);
    const float* result = sum.sum(node, first, begin, count, into);
    if (result != into) std::copy_n(result, count, into);
  }
}

}  // namespace tandem::collective
