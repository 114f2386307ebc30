// Fills a record (a Job, or one of its layers) from a TOML table as the schema says, and finds
// every mistake that can be seen key by key: unknown names, wrong types, values that are out of
// range, keys that do not apply, keys that are missing. What takes two keys to see is in
// job/rules.h.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "job/document.h"
#include "job/locations.h"
#include "job/mistake.h"
#include "job/schema.h"

namespace tandem::job {

// What reading finds besides the values. One thread at a time.
struct Findings {
  Mistakes mistakes;
  Locations locations;
  std::set<std::string, std::less<>> failed;  // Paths of keys whose value is wrong or missing.
};

// Turns `optimizer = "adam"` into `optimizer = { kind = "adam" }`, wherever the schema takes a word
// for a table.
void expand_words(const Schema& schema, Value& table);

// Fills `record` from `table`. Keys that are not given get their defaults. Nothing is thrown away
// silently: whatever is not understood is a mistake. `prefix` stands before every path in messages
// and locations ("model.layers[2]."). REQUIRES: expand_words() was applied to the table.
void read_record(const Schema& schema, const Value& table, std::string_view prefix, void* record,
                 Findings& findings);

}  // namespace tandem::job
