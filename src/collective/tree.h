// The one binary tree over lanes in which every sum is added, and how workers share it. A node of n
// lanes splits at the largest power of two below n: ((0+1)+(2+3))+4. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::collective {

// Lanes [begin, end).
struct LaneRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const LaneRange&, const LaneRange&) = default;
};

// Where a node of n >= 2 lanes splits: its left child has so many.
std::int64_t left_lanes(std::int64_t lanes);

// Where each worker's lanes end, by worker: the first has lanes from 0 on, each other from the end
// of the one before it. Every worker has at least one.
using LaneEnds = std::vector<std::int64_t>;

// Sizes differ by one at most. REQUIRES: workers <= lanes.
LaneEnds equal_shares(std::int64_t lanes, std::int64_t workers);

// The lanes that a worker hosts; with three numbers: of equal shares.
LaneRange hosted_lanes(const LaneEnds& ends, std::int64_t worker);
LaneRange hosted_lanes(std::int64_t lanes, std::int64_t workers, std::int64_t worker);

// The nodes of the tree over `lanes` that lie in `hosted` and in no larger node that does, in
// order: what a worker can sum by itself without changing a bit of the whole.
std::vector<LaneRange> maximal_nodes(std::int64_t lanes, LaneRange hosted);

// maximal_nodes of all workers, in lane order, with their owner.
struct Partial {
  LaneRange lanes;
  std::int64_t worker = 0;
};
std::vector<Partial> partials_of(const LaneEnds& ends);
std::vector<Partial> partials_of(std::int64_t lanes, std::int64_t workers);

}  // namespace tandem::collective
