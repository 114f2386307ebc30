#include "collective/reduce.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <vector>

#include "collective/tree.h"

namespace tandem::collective {
namespace {

// The definition, element by element.
float tree_sum(const std::vector<std::vector<float>>& sources, std::size_t begin, std::size_t end,
               std::size_t index) {
  if (end - begin == 1) return sources[begin][index];
  const std::size_t middle =
      begin + static_cast<std::size_t>(left_lanes(static_cast<std::int64_t>(end - begin)));
  return tree_sum(sources, begin, middle, index) + tree_sum(sources, middle, end, index);
}

std::vector<std::vector<float>> random_sources(std::size_t sources, std::size_t count) {
  std::vector<std::vector<float>> result(sources);
  for (auto& source : result) {
    for (std::size_t i = 0; i < count; ++i)
      source.push_back(static_cast<float>(*rc::gen::inRange(-1000000, 1000000)) * 1.37e-3F);
  }
  return result;
}

std::vector<const std::byte*> pointers(const std::vector<std::vector<float>>& sources) {
  std::vector<const std::byte*> result;
  for (const auto& source : sources)
    result.push_back(reinterpret_cast<const std::byte*>(source.data()));
  return result;
}

TEST(Reduce, AddsInTheTreesOrderAlsoOntoASource) {
  EXPECT_TRUE(rc::check([] {
    const std::size_t count = *rc::gen::elementOf(std::vector<std::size_t>{0, 1, 15, 33, 1025});
    auto sources = random_sources(static_cast<std::size_t>(*rc::gen::inRange(1, 10)), count);
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = tree_sum(sources, 0, sources.size(), i);
    const std::size_t onto =
        static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(sources.size())));
    reduce(Type::kFloat32, Op::kSum, Order::kOrdered, 0, pointers(sources),
           reinterpret_cast<std::byte*>(sources[onto].data()), count);
    RC_ASSERT(sources[onto] == expected);
  }));
}

TEST(Reduce, RingAddsOneAfterAnother) {
  EXPECT_TRUE(rc::check([] {
    const std::size_t count = 37;
    auto sources = random_sources(static_cast<std::size_t>(*rc::gen::inRange(1, 10)), count);
    const std::size_t first =
        static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(sources.size())));
    std::vector<float> expected = sources[first];
    for (std::size_t s = 1; s < sources.size(); ++s) {
      for (std::size_t i = 0; i < count; ++i)
        expected[i] += sources[(first + s) % sources.size()][i];
    }
    std::vector<float> sum(count);
    reduce(Type::kFloat32, Op::kSum, Order::kRing, first, pointers(sources),
           reinterpret_cast<std::byte*>(sum.data()), count);
    RC_ASSERT(sum == expected);
  }));
}

}  // namespace
}  // namespace tandem::collective
