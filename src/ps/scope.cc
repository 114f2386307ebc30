#include "ps/scope.h"

#include <algorithm>

#include "optim/clip.h"

namespace tandem::ps {

std::vector<Bucket> slices_of(const Plan& plan, std::size_t servers) {
  if (plan.is_sparse()) {
    std::vector<Bucket> slices = cut_slices(plan.floats - plan.first(), servers);
    for (Bucket& slice : slices) slice = {slice.begin + plan.first(), slice.end + plan.first()};
    return slices;
  }
  // The norm needs whole blocks of squares, too.
  return between_rows(cut_slices(plan.floats, servers), plan.tables,
                      plan.clip.norm > 0 ? optim::kSquaresBlock : 0);
}

std::vector<RowRange> rows_of(const Plan& plan, const Bucket& slice, const KeyShare& share) {
  return plan.is_sparse() ? rows_by_key(plan.tables, plan.sparse, share)
                          : rows_in(slice, plan.tables);
}

std::vector<Bucket> trained_in_pieces(const Plan& plan) {
  std::vector<Bucket> scope;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin < end) scope.push_back({begin, end});
  };
  for (const optim::Range& range : plan.trainable) {
    auto begin = static_cast<std::size_t>(range.begin);
    const auto end = static_cast<std::size_t>(range.end);
    for (const Table& table : plan.tables) {
      if (table.begin < begin || table.begin >= end) continue;
      add(begin, table.begin);
      begin = table.end();
    }
    add(begin, end);
  }
  return scope;
}

std::vector<Bucket> scope_of(const Plan& plan) {
  if (plan.pull == Pull::kFull) return {{0, plan.floats}};
  std::vector<Bucket> scope = trained_in_pieces(plan);
  if (plan.parameters < plan.floats) scope.push_back({plan.parameters, plan.floats});
  return scope;
}

std::vector<Piece> pieces_of(const Plan& plan, const Bucket& slice) {
  std::vector<Piece> pieces;
  for (const Bucket& range : scope_of(plan)) {
    const Bucket part{std::max(slice.begin, range.begin), std::min(slice.end, range.end)};
    if (part.begin >= part.end) continue;
    const std::vector<Piece> cut = cut_pieces(part, plan.buckets);
    pieces.insert(pieces.end(), cut.begin(), cut.end());
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.bucket < b.bucket; });
  if (pieces.empty() && slice.begin < slice.end && rows_of(plan, slice, {}).empty())
    pieces = cut_pieces({slice.begin, slice.begin + 1}, plan.buckets);
  return pieces;
}

}  // namespace tandem::ps
