#include "collective/reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/span_math.h"
#include "collective/message_reducer.h"
#include "collective/testing.h"

namespace tandem::collective {
namespace {

using testing::run_shm_ranks;
using testing::soon;

float value(std::int64_t lane, std::int64_t step, std::size_t index) {
  return std::sin(static_cast<float>(lane * 31 + step * 7) + static_cast<float>(index)) * 100;
}

// A node of the lane tree by definition.
float node_sum(LaneRange node, std::int64_t step, std::size_t index) {
  if (node.size() == 1) return value(node.begin, step, index);
  const std::int64_t middle = node.begin + left_lanes(node.size());
  return node_sum({node.begin, middle}, step, index) + node_sum({middle, node.end}, step, index);
}

ReducePlan plan_of(std::int64_t lanes) {
  return {lanes, 5000, {{3000, 4900}, {17, 3000}, {0, 17}, {4900, 5000}}};
}

// Several steps, with buckets told one by one.
void check_steps(Reducer& reducer, std::int64_t lanes, const Group& group) {
  const auto nodes = maximal_nodes(lanes, hosted_lanes(lanes, group.size(), group.rank()));
  ASSERT_EQ(reducer.partials(), nodes.size());
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::span<float> memory = reducer.partial(i);
      for (std::size_t at = 0; at < memory.size(); ++at) memory[at] = node_sum(nodes[i], step, at);
    }
    ASSERT_TRUE(reducer.ready(1).ok());
    ASSERT_TRUE(reducer.ready(2).ok());
    ASSERT_TRUE(reducer.ready(1).ok());
    const auto sum = reducer.finish(soon());
    ASSERT_TRUE(sum.ok()) << sum.error().message();
    for (std::size_t at = 0; at < 5000; ++at)
      ASSERT_EQ((*sum)[at], node_sum({0, lanes}, step, at)) << "lanes " << lanes << ", at " << at;
  }
}

TEST(Reducer, GivesTheLaneTreesBitsForEveryNumberOfWorkers) {
  for (const std::int64_t lanes : {1, 2, 3, 4, 6, 7, 8}) {
    for (int workers = 1; workers <= std::min<std::int64_t>(lanes, 5); ++workers) {
      run_shm_ranks(workers, [lanes](Group& group) {
        auto reducer = group.make_reducer(plan_of(lanes), soon());
        ASSERT_TRUE(reducer.ok()) << reducer.error().message();
        check_steps(**reducer, lanes, group);
      });
    }
  }
}

}  // namespace
}  // namespace tandem::collective
