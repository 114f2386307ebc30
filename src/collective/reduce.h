// Element-wise sums, minima and maxima of several buffers in a given order. Pure; the same bits on
// every machine (base/simd.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::collective {

enum class Type : std::uint8_t { kFloat32, kFloat64, kInt32, kInt64, kUint8 };
enum class Op : std::uint8_t { kSum, kMin, kMax };
// kOrdered: the tree over ranks that lanes use too (collective/tree.h), so a sum's bits depend on
// nothing but the operands. kRing: one after another, each slice from another rank on.
enum class Order : std::uint8_t { kOrdered, kRing };

std::size_t size_of(Type type);

struct Operand {
  void* data = nullptr;
  std::size_t count = 0;
  Type type = Type::kFloat32;

  std::size_t bytes() const { return count * size_of(type); }
};

// to[i] = the sources' elements combined as `order` says; kRing starts at source `first`. `to` may
// be one of the sources. REQUIRES: at least one source.
void reduce(Type type, Op op, Order order, std::size_t first,
            std::span<const std::byte* const> sources, std::byte* to, std::size_t count);

}  // namespace tandem::collective
