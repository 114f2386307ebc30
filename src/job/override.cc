#include "job/override.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "job/read.h"

namespace tandem::job {
namespace {

constexpr std::size_t kLongestOverride = 1 << 16;

bool is_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// Whether text that is no TOML may stand for a string at `path`. Unknown keys take anything: that
// they are unknown is the better message.
bool takes_bare(const Schema& schema, std::string_view path) {
  const Key* key = schema.first_row(path);
  if (key == nullptr) return !schema.is_table(path) || schema.takes_word(path);
  return std::holds_alternative<Access<std::string>>(key->field) ||
         std::holds_alternative<EnumAccess>(key->field);
}

Value bare(std::string_view text, Place place) {
  Value value;
  value.type = Type::kString;
  value.place = place;
  value.string = text;
  return value;
}

// Whether TOML's own message says more about text that it cannot read than that a string is of the
// wrong type: a missing bracket or quote, a number that is too large, Python's True.
bool fails_as_toml(std::string_view text) {
  constexpr std::string_view kStartsMore = "[{\"'";
  constexpr std::string_view kOfNumbers = "0123456789+-._eE";
  return text.empty() || text == "True" || text == "False" ||
         kStartsMore.find(text[0]) != std::string_view::npos ||
         text.find_first_not_of(kOfNumbers) == std::string_view::npos;
}

std::optional<Value> value_of(const Schema& schema, std::string_view path, std::string_view text,
                              Place place, Mistakes& mistakes) {
  if (!takes_bare(schema, path)) {
    if (fails_as_toml(text)) return parse_value(text, place.text, place.column, mistakes);
    Mistakes of_toml;
    std::optional<Value> value = parse_value(text, place.text, place.column, of_toml);
    // As a string it gets the message that says what type the key has.
    return value ? std::move(value) : bare(text, place);
  }
  const bool starts_as_toml = text.starts_with('"') || text.starts_with('\'') ||
                              (text.starts_with('{') && schema.takes_word(path));
  if (starts_as_toml) return parse_value(text, place.text, place.column, mistakes);
  return bare(text, place);
}

// The entry `name` of `table`, made when it is not there.
Entry& entry_of(Value& table, std::string_view name) {
  if (Entry* found = table.find(name)) return *found;
  table.entries.push_back({std::string(name), {}, {}});
  return table.entries.back();
}

void set(Value& root, std::string_view path, Place key_place, Value value) {
  Value* table = &root;
  for (;;) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string_view name = path.substr(0, dot);
    key_place.length = static_cast<std::uint32_t>(name.size());
    Entry& entry = entry_of(*table, name);
    if (dot == path.size()) {
      entry.key_place = key_place;
      entry.value = std::move(value);
      return;
    }
    if (entry.key_place.text == Place::kNowhere || entry.value.type != Type::kTable) {
      entry.key_place = key_place;
      entry.value = Value{};
      entry.value.place = key_place;
    }
    table = &entry.value;
    path.remove_prefix(dot + 1);
    key_place.column += static_cast<std::uint32_t>(dot) + 1;
  }
}

}  // namespace

void apply_override(const Schema& schema, std::string_view text, std::int32_t text_number,
                    Value& root, Mistakes& mistakes) {
  const Place whole{text_number, 1, 1, Place::kToLineEnd};
  const std::size_t equals = text.find('=');
  std::string_view path = text.substr(0, equals);
  if (equals == std::string_view::npos || has_control(text) || text.size() > kLongestOverride) {
    mistakes.add(whole, "an override must have the form key=value", "such as train.epochs=5");
    return;
  }
  for (std::string_view rest = path;;) {
    const std::size_t dot = rest.find('.');
    if (!is_name(rest.substr(0, dot))) {
      mistakes.add(
          {text_number, 1, 1, static_cast<std::uint32_t>(std::max<std::size_t>(1, path.size()))},
          "an override must start with the name of a key", "such as train.epochs=5");
      return;
    }
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  constexpr std::ptrdiff_t kMostDots = 16;
  if (std::count(path.begin(), path.end(), '.') > kMostDots) {
    mistakes.add(whole, "a key has too many parts", "");
    return;
  }
  const Place value_place{text_number, 1, static_cast<std::uint32_t>(equals + 2),
                          Place::kToLineEnd};
  std::optional<Value> value =
      value_of(schema, path, text.substr(equals + 1), value_place, mistakes);
  if (!value) return;
  set(root, path, {text_number, 1, 1, 1}, std::move(*value));
  expand_words(schema, root);
}

}  // namespace tandem::job
