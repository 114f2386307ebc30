// A TOML text as a tree in which every key and value knows its place. This is the only door to
// toml++: document.cc alone includes it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/mistake.h"

namespace tandem::job {

enum class Type : std::uint8_t { kString, kInteger, kReal, kBoolean, kArray, kTable, kDate };

// How a message names it: "a string", "an integer", ...
std::string_view to_string(Type type);

struct Entry;

struct Value {
  Type type = Type::kTable;
  Place place;
  std::string string;
  std::int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  std::vector<Value> items;    // kArray.
  std::vector<Entry> entries;  // kTable, in the order of the text.

  // The entry of that name, or null. REQUIRES: none; anything but a table has no entries.
  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  Place key_place;
  Value value;
};

// The root table of `text`, which is text number `text_number` of the job. A mistake is added to
// `mistakes` and gives nothing.
std::optional<Value> parse_document(std::string_view text, std::int32_t text_number,
                                    Mistakes& mistakes);

// A single value, such as what follows `=`. Its place, and that of a mistake, is in line 1 of text
// `text_number`, starting at `column`. REQUIRES: `text` has no line break.
std::optional<Value> parse_value(std::string_view text, std::int32_t text_number,
                                 std::uint32_t column, Mistakes& mistakes);

}  // namespace tandem::job
