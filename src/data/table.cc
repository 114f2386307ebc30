#include "data/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

bool contains(const std::vector<std::int64_t>& places, std::int64_t place) {
  return std::find(places.begin(), places.end(), place) != places.end();
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

Result<std::int64_t> find_by_number(const Csv& csv, std::string_view what, std::string_view name,
                                    std::int64_t number) {
  const std::int64_t column = number < 0 ? number + csv.columns() : number;
  if (column >= 0 && column < csv.columns()) return column;
  return invalid(fmt::format(
      "there is no {} column {}: the file has {} columns, 0 to {} (or -1 to -{} from the end)",
      what, name, csv.columns(), csv.columns() - 1, csv.columns()));
}

// A column by name or number; `what` it is stands in messages.
Result<std::int64_t> find_column(const Csv& csv, std::string_view what, std::string_view name) {
  const auto& header = csv.header();
  if (const auto named = std::find(header.begin(), header.end(), name); named != header.end()) {
    return named - header.begin();
  }
  std::int64_t number = 0;
  const char* const end = name.data() + name.size();
  if (const auto [stop, error] = std::from_chars(name.data(), end, number);
      error == std::errc() && stop == end) {
    return find_by_number(csv, what, name, number);
  }
  if (header.empty()) {
    return invalid(fmt::format(
        "the {} column `{}` cannot be found: the file has no header (set data.header = \"yes\" "
        "if it has one, or name the column by its number from 0)",
        what, name));
  }
  const std::vector<std::string_view> names(header.begin(), header.end());
  const std::string_view meant = nearest(name, names);
  return invalid(fmt::format("there is no column `{}`{}", name,
                             meant.empty()
                                 ? fmt::format("; the columns are {}", fmt::join(names, ", "))
                                 : fmt::format("; did you mean `{}`?", meant)));
}

// Notes a column's role, unless it has another already.
Status take_role(const Csv& csv, std::int64_t column, std::set<std::int64_t>& taken) {
  if (taken.insert(column).second) return {};
  return invalid(fmt::format("{} is named twice among data.label, data.categorical and data.ignore",
                             csv.column_name(column)));
}

Result<std::int64_t> row_number(const Csv& csv, std::int64_t row, std::int64_t column) {
  const auto number = parse_number(csv.cell(row, column));
  if (!number) return bad_number(csv, row, column);
  if (*number >= 0 && *number < static_cast<double>(kMostRows) && *number == std::floor(*number))
    return static_cast<std::int64_t>(*number);
  return invalid(
      fmt::format("{}: {} is no row of a table; a column of data.categorical holds whole numbers "
                  "from 0 to {}",
                  csv.place(row, column), shown(csv.cell(row, column)), kMostRows - 1));
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
  if (column.rows > 0) {
    TANDEM_ASSIGN(const std::int64_t number, row_number(csv, row, place));
    if (number >= column.rows) {
      return invalid(fmt::format(
          "{}: the row {} is outside its table, which has {} rows, from 0 to {} (data.rows)",
          csv.place(row, place), number, column.rows, column.rows - 1));
    }
    *out = static_cast<float>(number);
    return {};
  }
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
  return find_column(csv, "label", label);
}

Result<Roles> find_roles(const Csv& csv, std::string_view label, std::span<const std::string> ids,
                         std::span<const std::string> ignored) {
  Roles roles;
  std::set<std::int64_t> taken;
  TANDEM_ASSIGN(roles.label, find_label(csv, label));
  taken.insert(roles.label);
  for (const std::string& name : ids) {
    TANDEM_ASSIGN(roles.ids.emplace_back(), find_column(csv, "categorical", name));
    TANDEM_TRY(take_role(csv, roles.ids.back(), taken));
  }
  if (!ignored.empty() && csv.header().empty()) {
    return invalid(
        "data.ignore needs a file whose first row names the columns; remove the columns instead");
  }
  for (const std::string& name : ignored) {
    TANDEM_ASSIGN(roles.ignored.emplace_back(), find_column(csv, "ignored", name));
    TANDEM_TRY(take_role(csv, roles.ignored.back(), taken));
  }
  return roles;
}

std::vector<std::int64_t> input_places(const Csv& csv, const Roles& roles) {
  std::vector<std::int64_t> places;
  for (std::int64_t place = 0; place < csv.columns(); ++place) {
    if (place != roles.label && !contains(roles.ignored, place)) places.push_back(place);
  }
  return places;
}

Result<std::vector<Column>> learn_columns(const Csv& csv, const Roles& roles,
                                          std::span<const std::uint32_t> rows) {
  if (csv.columns() < 2)
    return invalid("the file has one column; inputs and a label need at least two");
  const std::vector<std::int64_t> places = input_places(csv, roles);
  if (places.empty()) return invalid("data.ignore leaves no column to learn from");
  std::vector<Column> columns;
  for (const std::int64_t place : places) {
    Column column;
    if (!csv.header().empty()) column.name = csv.header()[static_cast<std::size_t>(place)];
    if (contains(roles.ids, place)) {
      column.rows = 1;
    } else if (!is_numeric(csv, place, rows)) {
      TANDEM_ASSIGN(column.categories, learn_categories(csv, place, rows));
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

Status grow_tables(const Csv& csv, std::span<const std::int64_t> places,
                   std::span<Column> columns) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].rows == 0) continue;
    for (std::int64_t row = 0; row < csv.rows(); ++row) {
      TANDEM_ASSIGN(const std::int64_t number, row_number(csv, row, places[i]));
      columns[i].rows = std::max(columns[i].rows, number + 1);
    }
  }
  return {};
}

std::vector<IdColumn> ids_of(std::span<const Column> columns) {
  std::vector<IdColumn> ids;
  std::int64_t input = 0;
  for (const Column& column : columns) {
    if (column.rows > 0) ids.push_back({input, column.rows});
    input += column.width();
  }
  return ids;
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
