#include "collective/reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <latch>
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

// Small enough for every rank to sum all of it, and not.
constexpr std::size_t kSizes[] = {5000, 40000};

ReducePlan plan_of(std::int64_t lanes, std::size_t floats, bool in_pieces = false) {
  return {lanes,
          floats,
          {{3000, floats - 100}, {17, 3000}, {0, 17}, {floats - 100, floats}},
          in_pieces};
}

// The sum, taken whole or in pieces that begin with the last floats.
std::vector<float> sum_of(Reducer& reducer, std::size_t floats, bool in_pieces) {
  if (!in_pieces) {
    const auto sum = reducer.finish(soon());
    EXPECT_TRUE(sum.ok()) << sum.error().message();
    return sum.ok() ? std::vector(sum->begin(), sum->end()) : std::vector<float>();
  }
  const Status gathered = reducer.gather(soon());
  EXPECT_TRUE(gathered.ok()) << gathered.error().message();
  std::vector<float> result(floats), scratch(999);
  for (const Bucket& part : {Bucket{floats - 7, floats}, Bucket{0, floats - 7}}) {
    for (std::size_t at = part.begin; at < part.end;) {
      const Piece piece = reducer.piece({at, part.end}, scratch);
      EXPECT_TRUE(piece.floats > 0 && piece.floats <= part.end - at);
      copy_sum(piece, std::span(result).subspan(at));
      at += piece.floats;
    }
  }
  reducer.taken();
  EXPECT_TRUE(reducer.release(soon()).ok());
  return result;
}

// Several steps, with buckets told one by one.
void check_steps(Reducer& reducer, std::int64_t lanes, std::size_t floats, const Group& group,
                 bool in_pieces = false, const LaneEnds& ends = {}) {
  const auto nodes =
      maximal_nodes(lanes, ends.empty() ? hosted_lanes(lanes, group.size(), group.rank())
                                        : hosted_lanes(ends, group.rank()));
  ASSERT_EQ(reducer.partials(), nodes.size());
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::span<float> memory = reducer.partial(i);
      for (std::size_t at = 0; at < memory.size(); ++at) memory[at] = node_sum(nodes[i], step, at);
    }
    ASSERT_TRUE(reducer.ready(1).ok());
    ASSERT_TRUE(reducer.ready(2).ok());
    ASSERT_TRUE(reducer.ready(1).ok());
    const std::vector<float> sum = sum_of(reducer, floats, in_pieces);
    ASSERT_EQ(sum.size(), floats);
    for (std::size_t at = 0; at < floats; ++at)
      ASSERT_EQ(sum[at], node_sum({0, lanes}, step, at)) << "lanes " << lanes << ", at " << at;
  }
}

TEST(Reducer, GivesTheLaneTreesBitsForEveryNumberOfWorkers) {
  for (const std::int64_t lanes : {1, 2, 3, 4, 6, 7, 8}) {
    for (int workers = 1; workers <= std::min<std::int64_t>(lanes, 5); ++workers) {
      run_shm_ranks(workers, [lanes](Group& group) {
        for (const std::size_t floats : kSizes) {
          for (const bool in_pieces : {false, true}) {
            auto reducer = group.make_reducer(plan_of(lanes, floats, in_pieces), soon());
            ASSERT_TRUE(reducer.ok()) << reducer.error().message();
            check_steps(**reducer, lanes, floats, group, in_pieces);
          }
        }
      });
    }
  }
}

TEST(Reducer, GivesTheSameBitsForUnevenShares) {
  for (const LaneEnds& ends :
       {LaneEnds{1, 8}, LaneEnds{5, 8}, LaneEnds{1, 7, 8}, LaneEnds{4, 5, 8}}) {
    run_shm_ranks(static_cast<int>(ends.size()), [&ends](Group& group) {
      for (const std::size_t floats : kSizes) {
        for (const bool in_pieces : {false, true}) {
          ReducePlan plan = plan_of(8, floats, in_pieces);
          plan.ends = ends;
          auto reducer = group.make_reducer(plan, soon());
          ASSERT_TRUE(reducer.ok()) << reducer.error().message();
          check_steps(**reducer, 8, floats, group, in_pieces, ends);
        }
      }
    });
  }
}

// Rank 1 reads the first step when rank 0 has filled the second.
void check_filling_ahead(int ranks) {
  std::latch filled(1);
  run_shm_ranks(ranks, [&](Group& group) {
    auto reducer = group.make_reducer(plan_of(ranks, kSizes[0], /*in_pieces=*/true), soon());
    ASSERT_TRUE(reducer.ok()) << reducer.error().message();
    const auto fill = [&](std::int64_t step) {
      const std::span<float> memory = (*reducer)->partial(0);
      for (std::size_t at = 0; at < memory.size(); ++at)
        memory[at] = node_sum({group.rank(), group.rank() + 1}, step, at);
      ASSERT_TRUE((*reducer)->ready(4).ok());
    };
    fill(0);
    if (group.rank() == 1) filled.wait();
    std::vector<float> sum(kSizes[0]), scratch(kSizes[0]);
    for (std::int64_t step = 0; step < 2; ++step) {
      ASSERT_TRUE((*reducer)->gather(soon()).ok());
      for (std::size_t at = 0; at < sum.size();) {
        const Piece piece = (*reducer)->piece({at, sum.size()}, scratch);
        copy_sum(piece, std::span(sum).subspan(at));
        at += piece.floats;
      }
      for (std::size_t at = 0; at < sum.size(); ++at)
        ASSERT_EQ(sum[at], node_sum({0, ranks}, step, at)) << "step " << step << ", at " << at;
      (*reducer)->taken();
      ASSERT_TRUE((*reducer)->release(soon()).ok());
      if (step > 0) break;
      fill(1);
      if (group.rank() == 0) filled.count_down();
    }
  });
}

TEST(Reducer, LetsARankFillTheNextStepBeforeOthersHaveReadASmallOne) {
  for (const int ranks : {2, 3}) check_filling_ahead(ranks);
}

// Not all of them count in the same words.
TEST(Reducer, ComesAfterOthersOfItsGroup) {
  constexpr std::int64_t kLanes = 4;
  for (const int workers : {2, 3, 4}) {
    run_shm_ranks(workers, [](Group& group) {
      for (const bool in_pieces : {true, false, true}) {
        for (const std::size_t floats : {kSizes[0], kSizes[1], kSizes[0]}) {
          auto reducer = group.make_reducer(plan_of(kLanes, floats, in_pieces), soon());
          ASSERT_TRUE(reducer.ok()) << reducer.error().message();
          check_steps(**reducer, kLanes, floats, group, in_pieces);
        }
      }
    });
  }
}

TEST(Reducer, GivesTheSameBitsByMessages) {
  for (const std::int64_t lanes : {3, 4, 6}) {
    const auto arena = std::make_shared<const Arena>(Arena::create().value());
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        auto engine = make_shm_engine(arena, testing::member(rank, 3), soon());
        ASSERT_TRUE(engine.ok()) << engine.error().message();
        Engine& shared = **engine;
        const Group group(std::move(engine).value());
        const auto reducer = make_message_reducer(shared, plan_of(lanes, kSizes[0]));
        check_steps(*reducer, lanes, kSizes[0], group);
      });
    }
  }
}

}  // namespace
}  // namespace tandem::collective
