#include "collective/reduce.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/simd.h"
#include "collective/tree.h"

namespace tandem::collective {
namespace {

// Elements worked on at a time: what is being summed stays in the first-level cache.
constexpr std::size_t kBlock = 1024;

// Each reads and writes one index at a time, so `to` may be any of the sources.
TANDEM_SIMD void add_two(const float* a, const float* b, float* to, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

TANDEM_SIMD void add_three(const float* a, const float* b, const float* c, float* to,
                           std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = (a[i] + b[i]) + c[i];
}

TANDEM_SIMD void add_four(const float* a, const float* b, const float* c, const float* d, float* to,
                          std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

template <typename T>
T combined(Op op, T a, T b) {
  switch (op) {
    case Op::kSum:
      return static_cast<T>(a + b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
  }
  return a;
}

template <typename T>
void combine(Op op, const T* a, const T* b, T* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = combined(op, a[i], b[i]);
}

void combine(Op op, const float* a, const float* b, float* to, std::size_t count) {
  if (op == Op::kSum) return add_two(a, b, to, count);
  combine<float>(op, a, b, to, count);
}

// One block of every source.
template <typename T>
class Block {
 public:
  Block(Op op, Order order, std::size_t first, std::span<const std::byte* const> sources)
      : op_(op), order_(order), first_(first), sources_(sources) {}

  void reduce(std::size_t begin, std::size_t count, T* to) {
    begin_ = begin;
    count_ = count;
    const std::size_t n = sources_.size();
    if (n == 1) {
      if (source(0) != to) std::copy_n(source(0), count, to);
    } else if (!reduce_few(to)) {
      if (order_ == Order::kRing) {
        chain(to);
      } else {
        node(0, n, to);
      }
    }
  }

 private:
  const T* source(std::size_t index) const {
    const std::size_t turned = order_ == Order::kRing ? (first_ + index) % sources_.size() : index;
    return reinterpret_cast<const T*>(sources_[turned]) + begin_;
  }

  // In one pass; false when there is no such loop.
  bool reduce_few(T* to) {
    if constexpr (std::is_same_v<T, float>) {
      if (op_ != Op::kSum) return false;
      switch (sources_.size()) {
        case 2:
          add_two(source(0), source(1), to, count_);
          return true;
        case 3:
          add_three(source(0), source(1), source(2), to, count_);
          return true;
        case 4:
          if (order_ == Order::kRing) return false;
          add_four(source(0), source(1), source(2), source(3), to, count_);
          return true;
        default:
          return false;
      }
    }
    return false;
  }

  // Sources one after another, through memory of our own: `to` may be one that is still to come.
  void chain(T* to) {
    std::array<T, kBlock> sum;
    combine(op_, source(0), source(1), sum.data(), count_);
    for (std::size_t i = 2; i + 1 < sources_.size(); ++i)
      combine(op_, sum.data(), source(i), sum.data(), count_);
    if (sources_.size() > 2)
      combine(op_, sum.data(), source(sources_.size() - 1), to, count_);
    else
      std::copy_n(sum.data(), count_, to);
  }

  // Sources [begin, end) of the tree. Everything is read before `to` is written.
  void node(std::size_t begin, std::size_t end, T* to) {
    const std::size_t middle =
        begin + static_cast<std::size_t>(left_lanes(static_cast<std::int64_t>(end - begin)));
    std::array<T, kBlock> left, right;
    const T* a = source(begin);
    const T* b = source(middle);
    if (middle - begin > 1) {
      node(begin, middle, left.data());
      a = left.data();
    }
    if (end - middle > 1) {
      node(middle, end, right.data());
      b = right.data();
    }
    combine(op_, a, b, to, count_);
  }

  const Op op_;
  const Order order_;
  const std::size_t first_;
  const std::span<const std::byte* const> sources_;
  std::size_t begin_ = 0, count_ = 0;
};

template <typename T>
void reduce_as(Op op, Order order, std::size_t first, std::span<const std::byte* const> sources,
               std::byte* to, std::size_t count) {
  Block<T> block(op, order, first, sources);
  T* out = reinterpret_cast<T*>(to);
  for (std::size_t begin = 0; begin < count; begin += kBlock)
    block.reduce(begin, std::min(kBlock, count - begin), out + begin);
}

}  // namespace

std::size_t size_of(Type type) {
  switch (type) {
    case Type::kFloat32:
    case Type::kInt32:
      return 4;
    case Type::kFloat64:
    case Type::kInt64:
      return 8;
    case Type::kUint8:
      return 1;
  }
  return 1;
}

void reduce(Type type, Op op, Order order, std::size_t first,
            std::span<const std::byte* const> sources, std::byte* to, std::size_t count) {
  TANDEM_CHECK(!sources.empty());
  switch (type) {
    case Type::kFloat32:
      return reduce_as<float>(op, order, first, sources, to, count);
    case Type::kFloat64:
      return reduce_as<double>(op, order, first, sources, to, count);
    case Type::kInt32:
      return reduce_as<std::int32_t>(op, order, first, sources, to, count);
    case Type::kInt64:
      return reduce_as<std::int64_t>(op, order, first, sources, to, count);
    case Type::kUint8:
      return reduce_as<std::uint8_t>(op, order, first, sources, to, count);
  }
}

}  // namespace tandem::collective
