// From the cells of a table to numbers: which column is the label, which are numbers and which are
// categories, and the encoding of rows by what was learnt. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/csv.h"
#include "data/encoding.h"
#include "data/features.h"

namespace tandem::data {

// The label's column: by name, or by number from 0 (negative: from the end). "" means the last.
Result<std::int64_t> find_label(const Csv& csv, std::string_view label);

// Which of a file's columns are what, by their places in it. All others are inputs, numbers or
// categories.
struct Roles {
  std::int64_t label = 0;
  std::vector<std::int64_t> ids = {};      // Inputs that are row numbers, in the order of names.
  std::vector<std::int64_t> ignored = {};  // Not read.
};

// Finds the label as find_label() does, the others likewise. kInvalidArgument when a column would
// be two things, or is to be ignored in a file without a header: then columns are found by place.
Result<Roles> find_roles(const Csv& csv, std::string_view label, std::span<const std::string> ids,
                         std::span<const std::string> ignored);

// The places of the inputs, ascending.
std::vector<std::int64_t> input_places(const Csv& csv, const Roles& roles);

// What every input is, learnt from these rows: numbers when most of its cells are, categories
// otherwise. Row numbers have 1 for `rows` (see grow_tables()). kInvalidArgument when a column has
// too many categories or a cell is missing, with its place.
Result<std::vector<Column>> learn_columns(const Csv& csv, const Roles& roles,
                                          std::span<const std::uint32_t> rows);

// Makes the tables of `columns`, which are at `places` of the file, large enough for all of its
// rows. kInvalidArgument with the place of a cell that is no row number.
Status grow_tables(const Csv& csv, std::span<const std::int64_t> places, std::span<Column> columns);

// The inputs that are row numbers.
std::vector<IdColumn> ids_of(std::span<const Column> columns);

// Where in `csv` the columns are that a model was trained on. `label_column` and `label_name` as in
// Encoding.
Result<std::vector<std::int64_t>> find_columns(const Csv& csv, const Encoding& encoding);

// All rows as inputs; `places` says where in the file each of `columns` is. A category that was not
// learnt becomes zeros. kInvalidArgument with the place of a cell that is missing, no number where
// one must be, or a row that its table does not have.
Result<Features> encode_columns(const Csv& csv, std::span<const Column> columns,
                                std::span<const std::int64_t> places);

}  // namespace tandem::data
