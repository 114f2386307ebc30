// Tables: parameters that lie in rows, such as embeddings, of which a step touches few. Where a job
// pulls partially, their rows travel by themselves, and servers hold whole rows. Plain
// values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Numbers of rows: ascending, each once.
using RowList = std::vector<std::uint32_t>;
// One for each table.
using RowLists = std::vector<RowList>;

// The rows of a table that a slice holds.
struct RowRange {
  std::size_t table = 0;            // Its number.
  std::size_t first = 0, last = 0;  // Rows [first, last).
  std::size_t width = 0;
  std::size_t begin = 0;  // The float of the vector where row `first` begins.

  // Where a row begins, in the vector. REQUIRES: the slice holds it.
  std::size_t at(std::size_t row) const { return begin + (row - first) * width; }
};

// Moves edges that would split a row to lower ones that do not; by multiples of `step`, or, when it
// is 0, to where the row begins. REQUIRES: the tables are ascending and do not overlap; edges are
// multiples of `step`, but for the last.
std::vector<Bucket> between_rows(std::vector<Bucket> slices, std::span<const Table> tables,
                                 std::size_t step);

// Of each table that has rows in the slice. REQUIRES: its edges split none.
std::vector<RowRange> rows_in(const Bucket& slice, std::span<const Table> tables);

// The part of the list that lies in the range.
std::span<const std::uint32_t> part_of(std::span<const std::uint32_t> rows, const RowRange& range);

}  // namespace tandem::ps
