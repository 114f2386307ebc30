// CSV as RFC 4180 has it and as people write it: quotes and doubled quotes, line breaks inside
// quotes, LF or CRLF, blank lines, a byte order mark, `;` or a tab instead of the comma. Pure
// parser: it yields cells; what they mean is data/table.h's business.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::data {

// Whether the first row names the columns. kAuto: it does when none of its cells is a number, and
// the second row has one or none of its cells occurs again below.
enum class Header : std::uint8_t { kAuto, kYes, kNo };

// A parsed file. Its cells look into the parsed text, which must outlive it.
class Csv {
 public:
  std::int64_t rows() const { return static_cast<std::int64_t>(lines_.size()); }
  std::int64_t columns() const { return columns_; }
  // Empty when there is no header; otherwise one distinct name a column.
  const std::vector<std::string>& header() const { return header_; }
  // Without quotes; without the spaces around a cell that had none.
  std::string_view cell(std::int64_t row, std::int64_t column) const {
    return cells_[static_cast<std::size_t>(row * columns_ + column)];
  }

  // For messages: "line 7, column `age`", "line 7, column 3".
  std::string place(std::int64_t row, std::int64_t column) const;
  std::string column_name(std::int64_t column) const;

 private:
  friend class CsvReader;

  std::int64_t columns_ = 0;
  std::vector<std::string> header_;
  std::vector<std::string_view> cells_;
  std::vector<std::int64_t> lines_;                     // Where each row starts, from 1.
  std::vector<std::unique_ptr<std::string>> unquoted_;  // Cells that had doubled quotes.
};

// kInvalidArgument with the line when a row has another width than the first or a quote is out of
// place; also when there is no row at all.
Result<Csv> parse_csv(std::string_view text, Header header);

// The number that a cell is, in the C locale; nothing when it is none or not usable
// (data/limits.h).
std::optional<double> parse_number(std::string_view cell);
// Whether it is written like a number, usable or not.
bool looks_like_number(std::string_view cell);

}  // namespace tandem::data
