#include "job/read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "job/field.h"

namespace tandem::job {
namespace {

constexpr std::size_t kMostLayers = 4096;

Value word_table(Value word) {
  Value table;
  table.type = Type::kTable;
  table.place = word.place;
  table.entries.push_back({"kind", word.place, std::move(word)});
  return table;
}

std::string join(std::string_view table, std::string_view name) {
  return table.empty() ? std::string(name) : fmt::format("{}.{}", table, name);
}

class Reader {
 public:
  Reader(const Schema& schema, std::string_view prefix, void* record, Findings& findings)
      : schema_(schema), prefix_(prefix), record_(record), findings_(findings) {}

  void read(const Value& table) {
    check_names(table, "");
    for (std::string_view path : schema_.paths()) read_key(table, path);
  }

 private:
  std::string full(std::string_view path) const { return prefix_ + std::string(path); }

  void fail(std::string_view path, Place place, std::string message, std::string help) {
    findings_.failed.insert(full(path));
    findings_.mistakes.add(place, std::move(message), std::move(help));
  }

  // Notes where every known name in `table` stands, and reports the unknown ones and what should be
  // a table.
  void check_names(const Value& table, const std::string& table_path) {
    for (const Entry& entry : table.entries) {
      if (findings_.mistakes.full()) return;
      const std::string path = join(table_path, entry.key);
      const bool is_table = schema_.is_table(path);
      if (!is_table && schema_.first_row(path) == nullptr) {
        findings_.mistakes.add(
            entry.key_place,
            fmt::format("unknown {} `{}`", is_section(entry, path) ? "section" : "key", full(path)),
            suggestion(table_path, entry.key));
        continue;
      }
      findings_.locations.add(full(path), entry.key_place, entry.value.place);
      if (is_table && entry.value.type == Type::kTable) {
        check_names(entry.value, path);
      } else if (is_table) {
        const bool takes_word = schema_.takes_word(path);
        fail(path, entry.value.place,
             fmt::format("`{}` must be a table{}, not {}", full(path),
                         takes_word ? " or a word" : "", to_string(entry.value.type)),
             fmt::format("write {} = {{ {} = ... }}", entry.key, schema_.names_in(path).front()));
      }
    }
  }

  bool is_section(const Entry& entry, std::string_view path) const {
    return prefix_.empty() && entry.value.type == Type::kTable &&
           path.find('.') == std::string_view::npos;
  }

  std::string suggestion(std::string_view table_path, std::string_view name) const {
    const std::vector<std::string_view> names = schema_.names_in(table_path);
    if (const std::string_view meant = nearest(name, names); !meant.empty()) {
      return fmt::format("did you mean `{}`?", meant);
    }
    // Perhaps it stands in the wrong table.
    const std::string ending = fmt::format(".{}", name);
    for (std::string_view path : schema_.paths()) {
      const std::size_t end = path.find(ending) + ending.size();
      if (end < ending.size() || (end < path.size() && path[end] != '.')) continue;
      return fmt::format("did you mean `{}`?", path.substr(0, end));
    }
    return fmt::format("known here: {}", fmt::join(names, ", "));
  }

  // Finds the value at `path`. `broken`: a table on the way to it is no table, which has been
  // reported.
  const Entry* find(const Value& table, std::string_view path, bool& broken) const {
    const Value* here = &table;
    const Entry* entry = nullptr;
    while (!path.empty()) {
      if (here->type != Type::kTable) {
        broken = true;
        return nullptr;
      }
      const std::size_t dot = std::min(path.find('.'), path.size());
      entry = here->find(path.substr(0, dot));
      if (entry == nullptr) return nullptr;
      here = &entry->value;
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return entry;
  }

  void read_key(const Value& table, std::string_view path) {
    bool broken = false;
    const Entry* entry = find(table, path, broken);
    if (broken || selector_failed(path)) {
      // Whether the key applies, or what it would be, cannot be known: say nothing about it.
      findings_.failed.insert(full(path));
      return;
    }
    const Key* key = schema_.row_for(path, record_);
    if (key == nullptr) {
      if (entry != nullptr) refuse_inapplicable(path, *entry);
    } else if (entry != nullptr) {
      read_value(*key, *entry);
    } else if (!key->fallback.empty()) {
      use_fallback(*key);
    }
    if (key != nullptr && key->presence == Presence::kRequired) require(*key, entry);
  }

  bool selector_failed(std::string_view path) const {
    for (const Key* row : schema_.rows(path)) {
      if (!row->when.selector.empty() && findings_.failed.contains(full(row->when.selector)))
        return true;
    }
    return false;
  }

  void read_value(const Key& key, const Entry& entry) {
    if (const auto* layers = std::get_if<Access<std::vector<arch::Layer>>>(&key.field)) {
      read_layers(key, entry.value, layers->of(record_));
      return;
    }
    if (auto refusal = read_field(key, entry.value, record_)) {
      fail(key.path, refusal->place, fmt::format("`{}` {}", full(key.path), refusal->message),
           std::move(refusal->help));
    }
  }

  void use_fallback(const Key& key) {
    Mistakes none;
    const std::optional<Value> value = parse_value(key.fallback, Place::kNowhere, 1, none);
    TANDEM_CHECK(value.has_value());
    TANDEM_CHECK(!read_field(key, *value, record_).has_value());
  }

  void require(const Key& key, const Entry* entry) {
    if (findings_.failed.contains(full(key.path)) || (entry != nullptr && !is_unset(key, record_)))
      return;
    if (entry != nullptr) {
      fail(key.path, entry->value.place, fmt::format("`{}` must not be empty", full(key.path)), "");
      return;
    }
    std::string why;
    if (!key.when.selector.empty()) why = " with " + choice(key.when.selector);
    const std::string allowed = allowed_text(key);
    fail(key.path, findings_.locations.key(full(key.path)),
         fmt::format("missing key `{}`", full(key.path)),
         fmt::format("`{}` is needed{}{}", key.leaf(), why, allowed.empty() ? "" : ": " + allowed));
  }

  // kind = "sgd": what a selector holds, as the file would say it.
  std::string choice(std::string_view selector) const {
    const Key* key = schema_.first_row(selector);
    return fmt::format("{} = \"{}\"", key->leaf(), word_of(*key, record_));
  }

  void refuse_inapplicable(std::string_view path, const Entry& entry) {
    std::string_view selector;
    std::vector<std::string> words;
    for (const Key* row : schema_.rows(path)) {
      selector = row->when.selector;
      for (std::string_view word : row->when.words) words.push_back(fmt::format("\"{}\"", word));
    }
    const Key* key = schema_.first_row(selector);
    std::string help = fmt::format("it belongs to {} = {}", key->leaf(), fmt::join(words, " or "));
    const bool chosen_elsewhere = entry.key_place.text == Place::kFile &&
                                  findings_.locations.key(full(selector)).text > Place::kFile;
    const std::string_view table = path.substr(0, path.rfind('.'));
    if (chosen_elsewhere && schema_.takes_word(table)) {
      help += fmt::format("; the override {}={} replaces the whole table", table,
                          word_of(*key, record_));
    }
    const bool given = findings_.locations.has(full(selector));
    fail(path, entry.key_place,
         fmt::format("`{}` does not go with {}{}", full(path), choice(selector),
                     given ? "" : ", the default"),
         std::move(help));
  }

  void read_layers(const Key& key, const Value& value, std::vector<arch::Layer>& layers) {
    if (value.type != Type::kArray) {
      fail(key.path, value.place,
           fmt::format("`{}` must be a list of tables, not {}", full(key.path),
                       to_string(value.type)),
           "write layers = [{ kind = \"flatten\" }, { kind = \"linear\" }]");
      return;
    }
    if (value.items.size() > kMostLayers) {
      fail(key.path, value.place,
           fmt::format("`{}` has more than {} layers", full(key.path), kMostLayers), "");
      return;
    }
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const std::string path = fmt::format("{}[{}]", full(key.path), i);
      Value item = value.items[i];
      if (item.type == Type::kString) item = word_table(std::move(item));
      findings_.locations.add(path, item.place, item.place);
      layers.emplace_back();
      if (item.type == Type::kTable) {
        read_record(layer_schema(), item, path + ".", &layers.back(), findings_);
      } else {
        fail(key.path, item.place,
             fmt::format("`{}` must be a table or a word, not {}", path, to_string(item.type)),
             "write { kind = \"relu\" }");
      }
    }
  }

  const Schema& schema_;
  const std::string prefix_;
  void* const record_;
  Findings& findings_;
};

void expand_words_in(const Schema& schema, Value& table, const std::string& table_path) {
  for (Entry& entry : table.entries) {
    const std::string path = join(table_path, entry.key);
    if (entry.value.type == Type::kString && schema.takes_word(path))
      entry.value = word_table(std::move(entry.value));
    if (entry.value.type == Type::kTable && schema.is_table(path))
      expand_words_in(schema, entry.value, path);
  }
}

}  // namespace

void expand_words(const Schema& schema, Value& table) {
  expand_words_in(schema, table, "");
}

void read_record(const Schema& schema, const Value& table, std::string_view prefix, void* record,
                 Findings& findings) {
  Reader(schema, prefix, record, findings).read(table);
}

}  // namespace tandem::job
