// From the cells of a table to numbers: which column is the label, which are numbers and which are
// categories, and the encoding of rows by what was learnt. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/csv.h"
#include "data/encoding.h"
#include "data/features.h"

namespace tandem::data {

// The label's column: by name, or by number from 0 (negative: from the end). "" means the last.
Result<std::int64_t> find_label(const Csv& csv, std::string_view label);

// What every column but `label` is, learnt from these rows: numbers when most of its cells are,
// categories otherwise. kInvalidArgument when a column has too many categories or a cell is
// missing, with its place.
Result<std::vector<Column>> learn_columns(const Csv& csv, std::int64_t label,
                                          std::span<const std::uint32_t> rows);

// Where in `csv` the columns are that a model was trained on. `label_column` and `label_name` as in
// Encoding.
Result<std::vector<std::int64_t>> find_columns(const Csv& csv, const Encoding& encoding);

// All rows as inputs; `places` says where in the file each of `columns` is. A category that was not
// learnt becomes zeros. kInvalidArgument with the place of a cell that is missing or no number
// where one must be.
Result<Features> encode_columns(const Csv& csv, std::span<const Column> columns,
                                std::span<const std::int64_t> places);

}  // namespace tandem::data
