#include "collective/tree.h"

#include <bit>

#include "base/check.h"

namespace tandem::collective {
namespace {

void collect(LaneRange node, LaneRange hosted, std::vector<LaneRange>& into) {
  if (node.end <= hosted.begin || node.begin >= hosted.end) return;
  if (node.begin >= hosted.begin && node.end <= hosted.end) {
    into.push_back(node);
    return;
  }
  const std::int64_t middle = node.begin + left_lanes(node.size());
  collect({node.begin, middle}, hosted, into);
  collect({middle, node.end}, hosted, into);
}

}  // namespace

std::int64_t left_lanes(std::int64_t lanes) {
  TANDEM_CHECK(lanes >= 2);
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(lanes) - 1));
}

LaneEnds equal_shares(std::int64_t lanes, std::int64_t workers) {
  TANDEM_CHECK(workers > 0 && workers <= lanes);
  const std::int64_t least = lanes / workers, more = lanes % workers;
  LaneEnds ends;
  for (std::int64_t worker = 1; worker <= workers; ++worker)
    ends.push_back(worker * least + (worker < more ? worker : more));
  return ends;
}

LaneRange hosted_lanes(const LaneEnds& ends, std::int64_t worker) {
  const auto index = static_cast<std::size_t>(worker);
  TANDEM_CHECK(worker >= 0 && index < ends.size());
  return {index == 0 ? 0 : ends[index - 1], ends[index]};
}

LaneRange hosted_lanes(std::int64_t lanes, std::int64_t workers, std::int64_t worker) {
  return hosted_lanes(equal_shares(lanes, workers), worker);
}

std::vector<LaneRange> maximal_nodes(std::int64_t lanes, LaneRange hosted) {
  std::vector<LaneRange> nodes;
  collect({0, lanes}, hosted, nodes);
  return nodes;
}

std::vector<Partial> partials_of(const LaneEnds& ends) {
  std::vector<Partial> partials;
  for (std::int64_t worker = 0; worker < std::ssize(ends); ++worker) {
    for (const LaneRange& node : maximal_nodes(ends.back(), hosted_lanes(ends, worker)))
      partials.push_back({node, worker});
  }
  return partials;
}

std::vector<Partial> partials_of(std::int64_t lanes, std::int64_t workers) {
  return partials_of(equal_shares(lanes, workers));
}

}  // namespace tandem::collective
