#include "job/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job/scan.h"

// toml++ 3.3 asserts what a text can break: "[=]" aborts a debug build, and clang's release build
// assumes that it cannot happen. The code behind those assertions reports the mistake, so they are
// turned off for every build.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

namespace tandem::job {
namespace {

Place place_of(const toml::source_region& region, std::int32_t text_number) {
  const bool one_line = region.end.line == region.begin.line;
  const std::uint32_t length =
      !one_line ? Place::kToLineEnd
                : std::max(region.end.column, region.begin.column + 1) - region.begin.column;
  return {text_number, region.begin.line, region.begin.column, length};
}

Value convert(const toml::node& node, std::int32_t text_number) {
  Value value;
  value.place = place_of(node.source(), text_number);
  switch (node.type()) {
    case toml::node_type::string:
      value.type = Type::kString;
      value.string = node.as_string()->get();
      break;
    case toml::node_type::integer:
      value.type = Type::kInteger;
      value.integer = node.as_integer()->get();
      break;
    case toml::node_type::floating_point:
      value.type = Type::kReal;
      value.real = node.as_floating_point()->get();
      break;
    case toml::node_type::boolean:
      value.type = Type::kBoolean;
      value.boolean = node.as_boolean()->get();
      break;
    case toml::node_type::array:
      value.type = Type::kArray;
      for (const toml::node& item : *node.as_array())
        value.items.push_back(convert(item, text_number));
      break;
    case toml::node_type::table:
      value.type = Type::kTable;
      for (auto&& [key, item] : *node.as_table()) {
        value.entries.push_back({std::string(key.str()), place_of(key.source(), text_number),
                                 convert(item, text_number)});
      }
      // toml++ sorts by name; messages and defaults read better in the file's order.
      std::stable_sort(value.entries.begin(), value.entries.end(),
                       [](const Entry& a, const Entry& b) { return a.key_place < b.key_place; });
      break;
    default:
      value.type = Type::kDate;
      break;
  }
  return value;
}

bool starts_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) != 0x80;
}

std::uint32_t code_points(std::string_view text) {
  return static_cast<std::uint32_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

// The line that holds `place`, without its end.
std::string_view line_at(std::string_view text, const Place& place) {
  for (std::uint32_t line = 1; line < place.line; ++line) text.remove_prefix(text.find('\n') + 1);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// What stands at `place` up to the next blank, comma or bracket.
std::string_view token_at(std::string_view text, const Place& place) {
  std::string_view line = line_at(text, place);
  for (std::uint32_t column = 1; column < place.column && !line.empty(); ++column) {
    do line.remove_prefix(1);
    while (!line.empty() && !starts_code_point(line[0]));
  }
  return line.substr(0, line.find_first_of(" \t,]}#"));
}

Mistake given_twice(std::string_view what, std::string_view inside, std::string_view text,
                    Place place) {
  const std::string_view help = inside == "table header"
                                    ? "a section may stand only once: put its keys together"
                                    : "it has a value already: keep one of them";
  const std::size_t open = what.find('\''), close = what.rfind('\'');
  if (open == close) return {place, "a key is given twice", std::string(help)};
  const std::string_view name = what.substr(open + 1, close - open - 1);
  const std::string_view line = line_at(text, place);
  // toml++ points at the value; the name stands before it.
  if (const std::size_t at = line.find(name); at != std::string_view::npos) {
    place.column = code_points(line.substr(0, at)) + 1;
    place.length = code_points(name);
  }
  return {place, fmt::format("`{}` is given twice", name), std::string(help)};
}

Mistake unreadable_value(std::string_view text, Place place) {
  const std::string_view token = token_at(text, place);
  place.length = std::max(1U, code_points(token));
  if (token == "True" || token == "False") {
    return {place, "cannot read this value", token == "True" ? "write true" : "write false"};
  }
  return {place, "cannot read this value", "strings stand in quotes: \"like this\""};
}

// toml++ says "Error while parsing array: what is wrong". Turns that into a message of ours.
Mistake explain(const toml::parse_error& error, std::string_view text, std::int32_t text_number) {
  constexpr std::string_view kDoing = "Error while parsing ";
  const Place place = place_of(error.source(), text_number);
  std::string_view what = error.description();
  std::string_view inside = "job file";
  if (what.starts_with(kDoing)) {
    const std::size_t colon = std::min(what.find(": "), what.size());
    inside = what.substr(kDoing.size(), colon - kDoing.size());
    what.remove_prefix(std::min(colon + 2, what.size()));
  }
  if (what.starts_with("cannot redefine existing ")) return given_twice(what, inside, text, place);
  if (what.starts_with("could not determine value type") || inside == "boolean")
    return unreadable_value(text, place);
  if (what.starts_with("exceeded maximum nested value depth")) what = "this is nested too deeply";
  if (what.starts_with("encountered end-of-file")) what = "the text ends here";
  if (inside == "string" && place.column > code_points(line_at(text, place)))
    what = "the closing quote is missing";
  return {place, fmt::format("syntax error in {}", inside), std::string(what)};
}

// The root table, or nothing and the mistake that is in the way.
std::optional<Value> parse_text(std::string_view text, std::int32_t text_number, Mistake& mistake) {
  if (std::optional<Mistake> found = scan(text)) {
    mistake = std::move(*found);
    mistake.place.text = text_number;
    return std::nullopt;
  }
  const toml::parse_result result = toml::parse(text);
  if (result) return convert(result.table(), text_number);
  mistake = explain(result.error(), text, text_number);
  return std::nullopt;
}

void shift(Place& place, std::int32_t text_number, std::uint32_t column) {
  constexpr std::uint32_t kPrefix = 2;  // Of the "v=" that parse_value puts before the value.
  place.text = text_number;
  place.column = std::max(place.column, kPrefix + 1) - kPrefix + column - 1;
}

void shift(Value& value, std::int32_t text_number, std::uint32_t column) {
  shift(value.place, text_number, column);
  for (Value& item : value.items) shift(item, text_number, column);
  for (Entry& entry : value.entries) {
    shift(entry.key_place, text_number, column);
    shift(entry.value, text_number, column);
  }
}

}  // namespace

std::string_view to_string(Type type) {
  switch (type) {
    case Type::kString:
      return "a string";
    case Type::kInteger:
      return "an integer";
    case Type::kReal:
      return "a number with a fraction";
    case Type::kBoolean:
      return "true or false";
    case Type::kArray:
      return "a list";
    case Type::kTable:
      return "a table";
    case Type::kDate:
      return "a date or time";
  }
  return "a value";
}

Entry* Value::find(std::string_view key) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

const Entry* Value::find(std::string_view key) const {
  return const_cast<Value*>(this)->find(key);
}

std::optional<Value> parse_document(std::string_view text, std::int32_t text_number,
                                    Mistakes& mistakes) {
  Mistake mistake;
  std::optional<Value> root = parse_text(text, text_number, mistake);
  if (!root) mistakes.add(mistake.place, std::move(mistake.message), std::move(mistake.help));
  return root;
}

std::optional<Value> parse_value(std::string_view text, std::int32_t text_number,
                                 std::uint32_t column, Mistakes& mistakes) {
  Mistake mistake;
  std::optional<Value> root = parse_text(fmt::format("v={}", text), text_number, mistake);
  if (!root) {
    shift(mistake.place, text_number, column);
    mistakes.add(mistake.place, std::move(mistake.message), std::move(mistake.help));
    return std::nullopt;
  }
  Value value = std::move(root->entries.front().value);
  shift(value, text_number, column);
  return value;
}

}  // namespace tandem::job
