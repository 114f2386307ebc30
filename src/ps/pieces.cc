#include "ps/pieces.h"

#include <algorithm>

#include "base/check.h"
#include "optim/clip.h"

namespace tandem::ps {

std::vector<Bucket> cut_slices(std::size_t floats, std::size_t servers) {
  constexpr std::size_t kBlock = optim::kSquaresBlock;
  TANDEM_CHECK(servers > 0);
  const std::size_t blocks = (floats + kBlock - 1) / kBlock;
  const auto edge = [&](std::size_t server) {
    return std::min(floats, blocks * server / servers * kBlock);
  };
  std::vector<Bucket> slices;
  for (std::size_t server = 0; server < servers; ++server)
    slices.push_back({edge(server), edge(server + 1)});
  return slices;
}

std::vector<Piece> cut_pieces(const Bucket& slice, std::span<const Bucket> buckets) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::size_t end = std::min(slice.end, buckets[i].end);
    for (std::size_t at = std::max(slice.begin, buckets[i].begin); at < end;) {
      const std::size_t next = std::min(end, at + kPieceFloats);
      pieces.push_back({at, next, i});
      at = next;
    }
  }
  return pieces;
}

}  // namespace tandem::ps
