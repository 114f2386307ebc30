#include "job/mistake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace tandem::job {
namespace {

constexpr std::size_t kTabWidth = 4;
constexpr std::size_t kWidestLine = 100;    // Columns of a quoted line; what is beyond is cut.
constexpr std::size_t kContextBefore = 40;  // Columns kept before the carets when a line is cut.
constexpr std::size_t kLongestText =
    1000;  // Bytes of a message or help; user text is quoted in them.

// One code point as it is shown.
struct Glyph {
  std::string_view bytes;
  std::size_t columns = 1;
};

std::size_t columns_of(char32_t c) {
  if (c >= 0x300 && c <= 0x36f) return 0;  // Combining marks.
  const bool wide = (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
                    (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
                    (c >= 0xff00 && c <= 0xff60) || (c >= 0x1f300 && c <= 0x1faff);
  return wide ? 2 : 1;
}

// Takes the first code point off `text`. Bytes that are not UTF-8 and control characters become
// `?`: a job file must not steer the terminal.
Glyph take_glyph(std::string_view& text) {
  const CodePoint point = decode_utf8(text);
  const std::string_view bytes = text.substr(0, static_cast<std::size_t>(std::max(point.bytes, 1)));
  text.remove_prefix(bytes.size());
  if (point.value == U'\t') return {std::string_view("    ", kTabWidth), kTabWidth};
  const bool control = point.value < 0x20 || (point.value >= 0x7f && point.value < 0xa0);
  if (point.bytes == 0 || control) return {"?"};
  return {bytes, columns_of(point.value)};
}

std::vector<Glyph> glyphs_of(std::string_view text) {
  std::vector<Glyph> glyphs;
  while (!text.empty()) glyphs.push_back(take_glyph(text));
  return glyphs;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty() && shown.size() < kLongestText) shown += take_glyph(text).bytes;
  if (!text.empty()) shown += "...";
  return shown;
}

// Line `number`, from 1, without its end; "" behind the last.
std::string_view line_of(std::string_view text, std::uint32_t number) {
  for (; number > 1; --number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

struct Quote {
  std::string line;
  std::string carets;  // With the blanks before them.
};

std::size_t width(const std::vector<Glyph>& glyphs, std::size_t begin, std::size_t end) {
  std::size_t columns = 0;
  for (std::size_t i = begin; i < end; ++i) columns += glyphs[i].columns;
  return columns;
}

// Draws `line` and the carets under `place`, both cut to a window of kWidestLine columns.
Quote quote(std::string_view line, const Place& place) {
  const std::vector<Glyph> glyphs = glyphs_of(line);
  const std::size_t mark = std::min<std::size_t>(place.column - 1, glyphs.size());
  const std::size_t mark_end = std::min(mark + place.length, glyphs.size());
  std::size_t begin = 0;
  if (width(glyphs, 0, glyphs.size()) > kWidestLine) {
    begin = mark;
    while (begin > 0 && width(glyphs, begin - 1, mark) <= kContextBefore) --begin;
  }
  std::size_t end = begin;
  std::size_t columns = 0;
  while (end < glyphs.size() && columns + glyphs[end].columns <= kWidestLine) {
    columns += glyphs[end++].columns;
  }
  Quote result;
  if (begin > 0) result.line = "...";
  result.carets.assign(result.line.size() + width(glyphs, begin, mark), ' ');
  for (std::size_t i = begin; i < end; ++i) result.line += glyphs[i].bytes;
  if (end < glyphs.size()) result.line += "...";
  const std::size_t marked = mark < end ? width(glyphs, mark, std::min(mark_end, end)) : 0;
  result.carets.append(std::max<std::size_t>(1, marked), '^');
  return result;
}

}  // namespace

std::string render(const Texts& texts, const Mistake& mistake) {
  const std::string message = printable(mistake.message);
  const std::string help = mistake.help.empty() ? "" : " " + printable(mistake.help);
  const std::string file_name = printable(texts.file_name);
  const Place& place = mistake.place;
  if (place.text == Place::kNowhere) {
    return help.empty() ? fmt::format("{}\n  --> {}", message, file_name)
                        : fmt::format("{}\n  --> {}\n   |\n   ={}", message, file_name, help);
  }
  if (place.text == Place::kFile) {
    const Quote quoted = quote(line_of(texts.file, place.line), place);
    const std::string number = std::to_string(place.line);
    const std::string blank(number.size() + 2, ' ');
    return fmt::format("{}\n{}--> {}:{}:{}\n{}|\n {} | {}\n{}| {}{}", message, blank.substr(1),
                       file_name, place.line, place.column, blank, number, quoted.line, blank,
                       quoted.carets, help);
  }
  const auto index = static_cast<std::size_t>(place.text - Place::kFile - 1);
  TANDEM_CHECK(index < texts.overrides.size());
  const Quote quoted = quote(texts.overrides[index], place);
  return fmt::format("{}\n  --> command line\n   |\n   | {}\n   | {}{}", message, quoted.line,
                     quoted.carets, help);
}

void Mistakes::add(Place place, std::string message, std::string help) {
  if (full()) {
    ++left_out_;
    return;
  }
  found_.push_back({place, std::move(message), std::move(help)});
}

std::string Mistakes::render(const Texts& texts) const {
  TANDEM_CHECK(!empty());
  std::vector<const Mistake*> sorted;
  for (const Mistake& mistake : found_) sorted.push_back(&mistake);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Mistake* a, const Mistake* b) { return a->place < b->place; });
  std::string text;
  for (const Mistake* mistake : sorted) {
    if (!text.empty()) text += "\n\nerror: ";
    text += job::render(texts, *mistake);
  }
  if (left_out_ > 0) text += "\n\nerror: there are more mistakes like these; they are not shown";
  return text;
}

}  // namespace tandem::job
