#include "data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "data/limits.h"

namespace tandem::data {
namespace {

Error invalid(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

// For messages: a cell, cut where it is long.
std::string shown(std::string_view cell) {
  constexpr std::size_t kMost = 40;
  return cell.size() <= kMost ? fmt::format("`{}`", cell)
                              : fmt::format("`{}…`", cell.substr(0, kMost));
}

Error bad_number(const Csv& csv, std::int64_t row, std::int64_t column) {
  const std::string_view cell = csv.cell(row, column);
  if (cell.empty()) {
    return invalid(fmt::format("{}: the value is missing; fill it in or remove the row",
                               csv.place(row, column)));
  }
  return invalid(fmt::format(
      "{}: {} is not a usable number, though the column holds numbers ({}); correct it or "
      "remove the row",
      csv.place(row, column), shown(cell), kUsableRule));
}

// Numbers when more than half of the cells are: then one that is not is a mistake to be reported.
bool is_numeric(const Csv& csv, std::int64_t column, std::span<const std::uint32_t> rows) {
  const auto numbers = std::count_if(rows.begin(), rows.end(), [&](std::uint32_t row) {
    return looks_like_number(csv.cell(row, column));
  });
  return static_cast<std::size_t>(numbers) * 2 > rows.size();
}

Status check_category(const Csv& csv, std::int64_t row, std::int64_t column) {
  const std::string_view cell = csv.cell(row, column);
  if (cell.empty()) return bad_number(csv, row, column);
  if (first_not_utf8(cell) == cell.size()) return {};
  return invalid(
      fmt::format("{}: the text is not UTF-8; save the file as UTF-8", csv.place(row, column)));
}

Result<std::vector<std::string>> learn_categories(const Csv& csv, std::int64_t column,
                                                  std::span<const std::uint32_t> rows) {
  std::set<std::string_view> distinct;
  for (std::uint32_t row : rows) {
    TANDEM_TRY(check_category(csv, row, column));
    distinct.insert(csv.cell(row, column));
    if (std::cmp_greater(distinct.size(), kMostCategories)) {
      return invalid(fmt::format(
          "{} holds text with more than {} distinct values, too many to be categories; remove the "
          "column or turn it into numbers",
          csv.column_name(column), kMostCategories));
    }
  }
  return std::vector<std::string>(distinct.begin(), distinct.end());
}

Result<std::int64_t> find_by_number(const Csv& csv, std::string_view label, std::int64_t number) {
  const std::int64_t column = number < 0 ? number + csv.columns() : number;
  if (column >= 0 && column < csv.columns()) return column;
  return invalid(fmt::format(
      "there is no label column {}: the file has {} columns, 0 to {} (or -1 to -{} from the end)",
      label, csv.columns(), csv.columns() - 1, csv.columns()));
}

// Columns by place: the file has exactly the model's columns, or the label's as well.
Result<std::vector<std::int64_t>> find_by_place(const Csv& csv, const Encoding& encoding) {
  const auto expected = static_cast<std::int64_t>(encoding.columns.size());
  std::vector<std::int64_t> places(encoding.columns.size());
  std::iota(places.begin(), places.end(), 0);
  if (csv.columns() == expected) return places;
  if (csv.columns() != expected + 1 || encoding.label_column < 0) {
    return invalid(fmt::format("the file has {} columns; the model was trained on {}{}",
                               csv.columns(), expected,
                               encoding.label_column < 0 ? "" : " and a label"));
  }
  for (std::int64_t& place : places) place += place >= encoding.label_column;
  return places;
}

// Room for one row's inputs, and where each column's begin.
Result<std::int64_t> total_width(std::span<const Column> columns, std::int64_t rows) {
  std::int64_t width = 0;
  for (const Column& column : columns) width += column.width();
  if (width > kMostFeatures / rows) {
    return invalid(fmt::format(
        "{} rows of {} inputs each (after every category became one) need more than the {} "
        "allowed; remove columns with many distinct texts",
        with_commas(rows), with_commas(width), human_bytes(std::uint64_t{4} * kMostFeatures)));
  }
  return width;
}

Status encode_cell(const Csv& csv, std::int64_t row, std::int64_t place, const Column& column,
                   float* out) {
  if (column.categories.empty()) {
    const auto number = parse_number(csv.cell(row, place));
    if (!number) return bad_number(csv, row, place);
    *out = static_cast<float>(*number);
    return {};
  }
  TANDEM_TRY(check_category(csv, row, place));
  const auto found =
      std::lower_bound(column.categories.begin(), column.categories.end(), csv.cell(row, place));
  if (found != column.categories.end() && *found == csv.cell(row, place)) {
    out[found - column.categories.begin()] = 1.0F;
  }
  return {};
}

}  // namespace

Result<std::int64_t> find_label(const Csv& csv, std::string_view label) {
  if (label.empty()) return csv.columns() - 1;
  const auto& header = csv.header();
  if (const auto named = std::find(header.begin(), header.end(), label); named != header.end()) {
    return named - header.begin();
  }
  std::int64_t number = 0;
  const char* const end = label.data() + label.size();
  if (const auto [stop, error] = std::from_chars(label.data(), end, number);
      error == std::errc() && stop == end) {
    return find_by_number(csv, label, number);
  }
  if (header.empty()) {
    return invalid(fmt::format(
        "the label column `{}` cannot be found: the file has no header (set data.header = \"yes\" "
        "if it has one, or name the column by its number from 0)",
        label));
  }
  const std::vector<std::string_view> names(header.begin(), header.end());
  const std::string_view meant = nearest(label, names);
  return invalid(fmt::format("there is no column `{}`{}", label,
                             meant.empty()
                                 ? fmt::format("; the columns are {}", fmt::join(names, ", "))
                                 : fmt::format("; did you mean `{}`?", meant)));
}

Result<std::vector<Column>> learn_columns(const Csv& csv, std::int64_t label,
                                          std::span<const std::uint32_t> rows) {
  if (csv.columns() < 2)
    return invalid("the file has one column; inputs and a label need at least two");
  std::vector<Column> columns;
  for (std::int64_t place = 0; place < csv.columns(); ++place) {
    if (place == label) continue;
    Column column;
    if (!csv.header().empty()) column.name = csv.header()[static_cast<std::size_t>(place)];
    if (!is_numeric(csv, place, rows)) {
      TANDEM_ASSIGN(column.categories, learn_categories(csv, place, rows));
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

Result<std::vector<std::int64_t>> find_columns(const Csv& csv, const Encoding& encoding) {
  const auto& header = csv.header();
  const bool named = std::any_of(encoding.columns.begin(), encoding.columns.end(),
                                 [](const Column& column) { return !column.name.empty(); });
  if (header.empty() || !named) return find_by_place(csv, encoding);
  std::vector<std::int64_t> places;
  for (const Column& column : encoding.columns) {
    const auto found = std::find(header.begin(), header.end(), column.name);
    if (found == header.end()) {
      return invalid(
          fmt::format("there is no column `{}`, on which the model was trained; the columns are {}",
                      column.name, fmt::join(header, ", ")));
    }
    places.push_back(found - header.begin());
  }
  return places;
}

Result<Features> encode_columns(const Csv& csv, std::span<const Column> columns,
                                std::span<const std::int64_t> places) {
  Features features;
  features.count = csv.rows();
  TANDEM_ASSIGN(features.width, total_width(columns, csv.rows()));
  features.floats.resize(static_cast<std::size_t>(features.count * features.width));
  float* out = features.floats.data();
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      TANDEM_TRY(encode_cell(csv, row, places[i], columns[i], out));
      out += columns[i].width();
    }
  }
  return features;
}

}  // namespace tandem::data
