// What can be done with one key of one record: take a value from TOML, give it back as TOML, and
// say in words what is allowed. Pure; records are changed only by read().
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "job/document.h"
#include "job/schema.h"

namespace tandem::job {

// Why a value was refused: the end of a sentence that starts with the key, and what to write
// instead.
struct Refusal {
  Place place;
  std::string message;  // "must be an integer, not a string"
  std::string help;
};

// Puts `value` into the key's field, or says why not; the field is then unchanged.
// REQUIRES: the field is not a list of layers.
std::optional<Refusal> read_field(const Key& key, const Value& value, void* record);

// The word that a word's or string's field holds. REQUIRES: the field is one of these.
std::string_view word_of(const Key& key, void* record);

// The field as TOML; parsing it gives the same value.
std::string field_text(const Key& key, void* record);

// All keys that apply to a record, as an inline table.
std::string record_text(const Schema& schema, void* record);

// Whether the field holds nothing: an empty string or list. Such a key is left out when a record is
// printed.
bool is_unset(const Key& key, void* record);

// "integer", "list of numbers", "word", ...
std::string_view type_text(const Key& key);

// The bounds or words: "from 0 to 64", "more than 0", "one of `a`, `b`"; "" when anything goes.
std::string allowed_text(const Key& key);

}  // namespace tandem::job
