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

LaneRange hosted_lanes(std::int64_t lanes, std::int64_t workers, std::int64_t worker) {
  TANDEM_CHECK(workers > 0 && workers <= lanes && worker >= 0 && worker < workers);
  const std::int64_t least = lanes / workers, more = lanes % workers;
  const auto begin = [&](std::int64_t w) { return w * least + (w < more ? w : more); };
  return {begin(worker), begin(worker + 1)};
}

std::vector<LaneRange> maximal_nodes(std::int64_t lanes, LaneRange hosted) {
  std::vector<LaneRange> nodes;
  collect({0, lanes}, hosted, nodes);
  return nodes;
}

std::vector<Partial> partials_of(std::int64_t lanes, std::int64_t workers) {
  std::vector<Partial> partials;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    for (const LaneRange& node : maximal_nodes(lanes, hosted_lanes(lanes, workers, worker)))
      partials.push_back({node, worker});
  }
  return partials;
}

}  // namespace tandem::collective
