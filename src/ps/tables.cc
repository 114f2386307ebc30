#include "ps/tables.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/rng.h"

namespace tandem::ps {

std::vector<Bucket> between_rows(std::vector<Bucket> slices, std::span<const Table> tables,
                                 std::size_t step) {
  const auto moved = [&](std::size_t edge) {
    // A step may lead into the table before.
    for (auto table = tables.rbegin(); table != tables.rend(); ++table) {
      if (edge >= table->end()) continue;
      while (edge > table->begin && (edge - table->begin) % table->width != 0)
        edge -= step == 0 ? (edge - table->begin) % table->width : step;
    }
    return edge;
  };
  for (Bucket& slice : slices) slice = {moved(slice.begin), moved(slice.end)};
  return slices;
}

std::vector<RowRange> rows_in(const Bucket& slice, std::span<const Table> tables) {
  std::vector<RowRange> ranges;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const Table& table = tables[i];
    const std::size_t begin = std::max(slice.begin, table.begin);
    const std::size_t end = std::min(slice.end, table.end());
    if (begin >= end) continue;
    TANDEM_CHECK((begin - table.begin) % table.width == 0 && (end - begin) % table.width == 0);
    const std::size_t first = (begin - table.begin) / table.width;
    ranges.push_back({i, first, first + (end - begin) / table.width, table.width, begin});
  }
  return ranges;
}

std::size_t KeyShare::owner(std::uint64_t key, std::size_t of) {
  // Not the hash of ps/row_map.h, by which the keys of one server would fill few parts of its maps.
  return of == 1 ? 0 : static_cast<std::size_t>(mix64(~key) % of);
}

std::vector<RowRange> rows_by_key(std::span<const Table> tables, std::span<const SparseRows> sparse,
                                  const KeyShare& share) {
  TANDEM_CHECK(tables.size() == sparse.size());
  std::vector<RowRange> ranges;
  for (std::size_t i = 0; i < tables.size(); ++i)
    ranges.push_back({i, 0, sparse[i].keys, tables[i].width, tables[i].begin, share});
  return ranges;
}

std::span<const std::uint32_t> part_of(std::span<const std::uint32_t> rows, const RowRange& range,
                                       RowList& scratch) {
  if (range.share) {
    if (range.share->of == 1) return rows;
    scratch.clear();
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(scratch),
                 [&](std::uint32_t row) { return range.share->holds(row); });
    return scratch;
  }
  const auto first = std::lower_bound(rows.begin(), rows.end(), range.first);
  const auto last = std::lower_bound(first, rows.end(), range.last);
  return {first, last};
}

}  // namespace tandem::ps
