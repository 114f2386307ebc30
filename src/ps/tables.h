// Tables: parameters that lie in rows, such as embeddings, of which a step touches few. Where a job
// pulls partially, their rows travel by themselves, and servers hold whole rows: in their slices of
// the vector, or by key in sparse tables, of which the vector then has only windows. Plain values
// and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ps/pieces.h"

namespace tandem::ps {

// What of the parameters travels in a step.
enum class Pull : std::uint8_t {
  kFull,     // All of them, to every worker.
  kPartial,  // What is trained; of tables, the rows that a worker touches.
};

// [rows, width] floats of the vector, row after row.
struct Table {
  std::size_t begin = 0;
  std::size_t rows = 0;
  std::size_t width = 0;

  std::size_t end() const { return begin + rows * width; }
  friend bool operator==(const Table&, const Table&) = default;
};

// How one of these is kept in sparse tables (ps/sparse_table.h), spread over the servers by key.
// What of it lies in a worker's vector is a window: the rows of a step, in the order of their keys.
struct SparseRows {
  std::uint64_t keys = 0;  // They are below.
  std::uint64_t seed = 0;  // Of how rows begin (base/rows.h),
  double scale = 0;        // in [-scale, scale).

  friend bool operator==(const SparseRows&, const SparseRows&) = default;
};

// Which keys a server holds: a pure function of the key.
struct KeyShare {
  std::size_t number = 0, of = 1;

  bool holds(std::uint64_t key) const { return owner(key, of) == number; }
  static std::size_t owner(std::uint64_t key, std::size_t of);
  friend bool operator==(const KeyShare&, const KeyShare&) = default;
};

// Numbers of rows: ascending, each once.
using RowList = std::vector<std::uint32_t>;
// One for each table.
using RowLists = std::vector<RowList>;

// The rows of a table that a slice holds.
struct RowRange {
  std::size_t table = 0;            // Its number.
  std::size_t first = 0, last = 0;  // Rows [first, last).
  std::size_t width = 0;
  std::size_t begin = 0;  // The float of the vector where row `first` begins, or the window.
  // Of rows in sparse tables, those of [first, last) that this share has.
  std::optional<KeyShare> share = {};

  bool holds(std::size_t row) const {
    return row >= first && row < last && (!share || share->holds(row));
  }
  // Where a row begins, in the vector. REQUIRES: the slice holds it, and not by key.
  std::size_t at(std::size_t row) const { return begin + (row - first) * width; }
};

// Moves edges that would split a row to lower ones that do not; by multiples of `step`, or, when it
// is 0, to where the row begins. REQUIRES: the tables are ascending and do not overlap; edges are
// multiples of `step`, but for the last.
std::vector<Bucket> between_rows(std::vector<Bucket> slices, std::span<const Table> tables,
                                 std::size_t step);

// Of each table that has rows in the slice. REQUIRES: its edges split none.
std::vector<RowRange> rows_in(const Bucket& slice, std::span<const Table> tables);

// Of all tables the rows that a server holds by key.
std::vector<RowRange> rows_by_key(std::span<const Table> tables, std::span<const SparseRows> sparse,
                                  const KeyShare& share);

// The part of the list that lies in the range; what is held by key is put together in `scratch`.
std::span<const std::uint32_t> part_of(std::span<const std::uint32_t> rows, const RowRange& range,
                                       RowList& scratch);

}  // namespace tandem::ps
