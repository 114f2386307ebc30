#include "data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "base/utf8.h"
#include "data/limits.h"

namespace tandem::data {
namespace {

std::string_view trimmed(std::string_view cell) {
  const std::size_t first = cell.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return cell.substr(first, cell.find_last_not_of(" \t") - first + 1);
}

Error bad_line(std::int64_t line, std::string_view what) {
  return Error(Code::kInvalidArgument, fmt::format("line {}: {}", line, what));
}

// The separator that the first line has most of; a comma when it has none.
char find_separator(std::string_view text) {
  std::int64_t commas = 0;
  std::int64_t semicolons = 0;
  std::int64_t tabs = 0;
  bool quoted = false;
  for (char c : text) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n') break;
    commas += c == ',';
    semicolons += c == ';';
    tabs += c == '\t';
  }
  if (semicolons > commas && semicolons >= tabs) return ';';
  return tabs > commas ? '\t' : ',';
}

}  // namespace

class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : rest_(text), separator_(find_separator(text)) {}

  Result<Csv> read(Header header);

 private:
  Status read_row();
  Status read_cell();
  Status read_quoted_cell();
  bool at_line_end() const {
    return rest_.empty() || rest_[0] == '\n' || rest_ == "\r" || rest_.starts_with("\r\n");
  }
  void skip_line_end();
  bool has_header() const;
  Status take_header();

  std::string_view rest_;
  char separator_;
  std::int64_t line_ = 1;
  Csv csv_;
};

void CsvReader::skip_line_end() {
  if (rest_.starts_with("\r")) rest_.remove_prefix(1);
  if (!rest_.empty()) rest_.remove_prefix(1);
  ++line_;
}

Status CsvReader::read_quoted_cell() {
  const std::int64_t first_line = line_;
  rest_.remove_prefix(1);
  bool doubled = false;
  std::size_t end = 0;
  for (;; ++end) {
    end = rest_.find('"', end);
    if (end == std::string_view::npos)
      return bad_line(first_line, "a quote `\"` is opened and never closed");
    if (end + 1 >= rest_.size() || rest_[end + 1] != '"') break;
    doubled = true;
    ++end;
  }
  std::string_view cell = rest_.substr(0, end);
  line_ += std::count(cell.begin(), cell.end(), '\n');
  rest_.remove_prefix(end + 1);
  while (!at_line_end() && rest_[0] != separator_ && rest_[0] == ' ') rest_.remove_prefix(1);
  if (!at_line_end() && rest_[0] != separator_) {
    return bad_line(line_,
                    "text follows a closing quote; a quote inside a quoted cell must be doubled");
  }
  if (doubled) {
    auto plain = std::make_unique<std::string>();
    for (std::size_t i = 0; i < cell.size(); ++i) {
      plain->push_back(cell[i]);
      if (cell[i] == '"') ++i;
    }
    cell = *plain;
    csv_.unquoted_.push_back(std::move(plain));
  }
  csv_.cells_.push_back(cell);
  return {};
}

Status CsvReader::read_cell() {
  while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  if (rest_.starts_with("\"")) return read_quoted_cell();
  std::size_t end = 0;
  while (end < rest_.size() && rest_[end] != separator_ && rest_[end] != '\n') ++end;
  std::string_view cell = rest_.substr(0, end);
  const bool ends_line = end == rest_.size() || rest_[end] == '\n';
  if (ends_line && cell.ends_with('\r')) cell.remove_suffix(1);
  rest_.remove_prefix(cell.size());
  csv_.cells_.push_back(trimmed(cell));
  return {};
}

Status CsvReader::read_row() {
  const std::int64_t row_line = line_;
  const std::size_t first_cell = csv_.cells_.size();
  for (;;) {
    TANDEM_TRY(read_cell());
    if (at_line_end()) break;
    rest_.remove_prefix(1);  // The separator.
  }
  const auto width = static_cast<std::int64_t>(csv_.cells_.size() - first_cell);
  if (csv_.lines_.empty()) csv_.columns_ = width;
  if (width != csv_.columns_) {
    return bad_line(row_line,
                    fmt::format("{} columns where the first row has {}", width, csv_.columns_));
  }
  if (width > kMostColumns) {
    return bad_line(row_line,
                    fmt::format("{} columns; at most {} are possible", width, kMostColumns));
  }
  csv_.lines_.push_back(row_line);
  skip_line_end();
  return {};
}

bool CsvReader::has_header() const {
  bool number_below = false;
  for (std::int64_t column = 0; column < csv_.columns_; ++column) {
    if (parse_number(csv_.cell(0, column))) return false;
    number_below = number_below || (csv_.rows() > 1 && parse_number(csv_.cell(1, column)));
  }
  if (number_below) return true;
  for (std::int64_t row = 1; row < csv_.rows(); ++row) {
    for (std::int64_t column = 0; column < csv_.columns_; ++column) {
      if (csv_.cell(row, column) == csv_.cell(0, column)) return false;
    }
  }
  return true;
}

Status CsvReader::take_header() {
  std::set<std::string_view> seen;
  for (std::int64_t column = 0; column < csv_.columns_; ++column) {
    const std::string_view name = csv_.cell(0, column);
    if (first_not_utf8(name) != name.size()) {
      return bad_line(
          csv_.lines_[0],
          fmt::format("the name of column {} is not UTF-8; save the file as UTF-8", column));
    }
    if (!seen.insert(name).second) {
      return bad_line(csv_.lines_[0],
                      fmt::format("two columns are named `{}`; names must differ", name));
    }
    csv_.header_.emplace_back(name);
  }
  csv_.cells_.erase(csv_.cells_.begin(), csv_.cells_.begin() + csv_.columns_);
  csv_.lines_.erase(csv_.lines_.begin());
  return {};
}

Result<Csv> CsvReader::read(Header header) {
  while (!rest_.empty()) {
    if (at_line_end()) {
      skip_line_end();
    } else {
      TANDEM_TRY(read_row());
    }
  }
  if (csv_.rows() > 0 && (header == Header::kYes || (header == Header::kAuto && has_header()))) {
    TANDEM_TRY(take_header());
  }
  if (csv_.rows() == 0) {
    return Error(Code::kInvalidArgument, csv_.header_.empty()
                                             ? "the file has no rows"
                                             : "the file has a header but no rows");
  }
  if (csv_.rows() > kMostSamples) {
    return Error(Code::kInvalidArgument, fmt::format("more than {} rows", kMostSamples));
  }
  return std::move(csv_);
}

std::string Csv::column_name(std::int64_t column) const {
  if (header_.empty()) return fmt::format("column {}", column);
  return fmt::format("column `{}`", header_[static_cast<std::size_t>(column)]);
}

std::string Csv::place(std::int64_t row, std::int64_t column) const {
  return fmt::format("line {}, {}", lines_[static_cast<std::size_t>(row)], column_name(column));
}

Result<Csv> parse_csv(std::string_view text, Header header) {
  return CsvReader(without_mark(text)).read(header);
}

namespace {

// What is out of a double's range gives infinity.
std::optional<double> read_number(std::string_view cell) {
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  double number = 0;
  const char* const end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  return error == std::errc() ? number : std::numeric_limits<double>::infinity();
}

}  // namespace

std::optional<double> parse_number(std::string_view cell) {
  const std::optional<double> number = read_number(cell);
  return number && is_usable(*number) ? number : std::nullopt;
}

bool looks_like_number(std::string_view cell) {
  return read_number(cell).has_value();
}

}  // namespace tandem::data
