#include "job/field.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace tandem::job {
namespace {

constexpr std::size_t kLongestString = 4096;
constexpr std::size_t kLongestList = 1 << 20;

template <typename... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overload(Cases...) -> Overload<Cases...>;  // clang 14 does not deduce it.

// A bound as people write it: 65,536 or 0.01.
std::string number_text(double number) {
  constexpr double kMostExact = 9e15;
  const bool whole = std::trunc(number) == number && std::abs(number) < kMostExact;
  return whole ? with_commas(static_cast<std::int64_t>(number)) : fmt::format("{}", number);
}

std::string range_text(const Range& range) {
  const bool bounded_below = std::isfinite(range.least), bounded_above = std::isfinite(range.most);
  if (!bounded_below && !bounded_above) return "";
  const std::string least = number_text(range.least), most = number_text(range.most);
  if (!bounded_above) return (range.open_least ? "more than " : "at least ") + least;
  if (!range.open_least && !range.open_most) return fmt::format("from {} to {}", least, most);
  return fmt::format("{} {} and {} {}", range.open_least ? "more than" : "at least", least,
                     range.open_most ? "less than" : "at most", most);
}

std::string words_text(const std::vector<Word>& words) {
  std::string text = words.size() == 1 ? "" : "one of ";
  for (const Word& word : words)
    text += fmt::format("{}`{}`", &word == words.data() ? "" : ", ", word.name);
  return text;
}

bool inside(const Range& range, double number) {
  if (number < range.least || number > range.most) return false;
  return !(range.open_least && number == range.least) && !(range.open_most && number == range.most);
}

Refusal wrong_type(const Value& value, std::string_view wanted, std::string help) {
  return {value.place, fmt::format("must be {}, not {}", wanted, to_string(value.type)),
          std::move(help)};
}

// What to write instead.
std::string advice(const Key& key) {
  const std::string allowed = allowed_text(key);
  if (allowed.empty()) return "";
  return (key.is_word() ? "use " : "allowed: ") + allowed;
}

// The number in `value`, inside the key's range, for a field of type T.
template <typename T>
std::optional<Refusal> read_number(const Key& key, const Value& value, T& number) {
  constexpr bool kWhole = std::is_integral_v<T>;
  const bool whole_value = value.type == Type::kInteger;
  if (!whole_value && (kWhole || value.type != Type::kReal)) {
    constexpr double kMostExact = 9e15;
    const bool could_be_whole = value.type == Type::kReal && std::trunc(value.real) == value.real &&
                                std::abs(value.real) < kMostExact;
    return wrong_type(value, kWhole ? "an integer" : "a number",
                      could_be_whole ? fmt::format("write {:.0f}", value.real) : advice(key));
  }
  const double wide = whole_value ? static_cast<double>(value.integer) : value.real;
  const double largest = kWhole ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<T>::max());
  if (!(std::abs(wide) <= largest)) {
    return Refusal{value.place, fmt::format("cannot be {}", wide), "it must be a finite number"};
  }
  if (!inside(key.range, wide)) {
    const std::string given = whole_value ? std::to_string(value.integer) : fmt::format("{}", wide);
    return Refusal{value.place, fmt::format("cannot be {}", given),
                   "it must be " + range_text(key.range)};
  }
  number = whole_value ? static_cast<T>(value.integer) : static_cast<T>(value.real);
  return std::nullopt;
}

std::optional<Refusal> read_item(const Key&, const Value& value, std::string& string) {
  if (value.type != Type::kString) return wrong_type(value, "a string", "put it in quotes");
  if (value.string.size() > kLongestString || value.string.find('\0') != std::string::npos) {
    return Refusal{value.place, "must be a string without zero bytes, of at most 4096 bytes", ""};
  }
  string = value.string;
  return std::nullopt;
}

template <typename T>
requires std::is_arithmetic_v<T> std::optional<Refusal> read_item(const Key& key,
                                                                  const Value& value, T& number) {
  return read_number(key, value, number);
}

template <typename T>
std::optional<Refusal> read_list(const Key& key, const Value& value, std::vector<T>& list) {
  if (value.type != Type::kArray) {
    return wrong_type(value, fmt::format("a {}", type_text(key)), "write it as a list in [ ]");
  }
  if (value.items.size() > kLongestList) return Refusal{value.place, "has too many entries", ""};
  if (value.items.empty() && !key.fallback.empty()) {
    return Refusal{value.place, "must not be empty", fmt::format("without it: {}", key.fallback)};
  }
  std::vector<T> items(value.items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (auto refusal = read_item(key, value.items[i], items[i])) {
      refusal->message = fmt::format("has a wrong entry: number {} {}", i + 1, refusal->message);
      return refusal;
    }
  }
  list = std::move(items);
  return std::nullopt;
}

// The place in key.words of the word in `value`.
std::optional<Refusal> read_word(const Key& key, const Value& value, std::size_t& index) {
  if (value.type != Type::kString) return wrong_type(value, "a string", advice(key));
  std::vector<std::string_view> names;
  for (const Word& word : key.words) names.push_back(word.name);
  for (index = 0; index < names.size(); ++index) {
    if (names[index] == value.string) return std::nullopt;
  }
  const std::string_view meant = nearest(value.string, names);
  return Refusal{value.place, fmt::format("cannot be \"{}\"", value.string),
                 meant.empty() ? advice(key) : fmt::format("did you mean \"{}\"?", meant)};
}

std::optional<Refusal> read_string(const Key& key, const Value& value, std::string& string) {
  if (key.is_word()) {
    std::size_t index = 0;
    if (auto refusal = read_word(key, value, index)) return refusal;
    string = key.words[index].name;
    return std::nullopt;
  }
  if (key.accepts == Accepts::kIntegerToo && value.type == Type::kInteger) {
    string = std::to_string(value.integer);
    return std::nullopt;
  }
  return read_item(key, value, string);
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string item_text(const std::string& string) {
  return in_quotes(string);
}
template <typename T>
requires std::is_arithmetic_v<T> std::string item_text(T number) {
  return fmt::format("{}", number);
}

template <typename T>
std::string list_text(const std::vector<T>& list) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ", ") + item_text(list[i]);
  return text + "]";
}

std::string layers_text(std::vector<arch::Layer>& layers) {
  std::string text = "[\n";
  for (arch::Layer& layer : layers)
    text += fmt::format("  {},\n", record_text(layer_schema(), &layer));
  return text + "]";
}

}  // namespace

std::optional<Refusal> read_field(const Key& key, const Value& value, void* record) {
  using Result = std::optional<Refusal>;
  return std::visit(Overload{
                        [&](const Access<std::string>& field) -> Result {
                          return read_string(key, value, field.of(record));
                        },
                        [&](const Access<bool>& field) -> Result {
                          if (value.type != Type::kBoolean)
                            return wrong_type(value, "true or false",
                                              "write true or false, without quotes");
                          field.of(record) = value.boolean;
                          return std::nullopt;
                        },
                        [&](const Access<std::vector<arch::Layer>>&) -> Result {
                          TANDEM_CHECK(false);
                          return std::nullopt;
                        },
                        [&](const EnumAccess& field) -> Result {
                          std::size_t index = 0;
                          if (auto refusal = read_word(key, value, index)) return refusal;
                          field.set(record, index);
                          return std::nullopt;
                        },
                        [&]<typename T>(const Access<std::vector<T>>& field) -> Result {
                          return read_list(key, value, field.of(record));
                        },
                        [&]<typename T>(const Access<T>& field) -> Result {
                          return read_number(key, value, field.of(record));
                        },
                    },
                    key.field);
}

std::string_view word_of(const Key& key, void* record) {
  if (const auto* word = std::get_if<EnumAccess>(&key.field)) {
    const std::size_t index = word->get(record);
    TANDEM_CHECK(index < key.words.size());
    return key.words[index].name;
  }
  return std::get<Access<std::string>>(key.field).of(record);
}

std::string field_text(const Key& key, void* record) {
  return std::visit(
      Overload{
          [&](const Access<std::string>& field) { return in_quotes(field.of(record)); },
          [&](const Access<std::vector<arch::Layer>>& field) {
            return layers_text(field.of(record));
          },
          [&](const EnumAccess&) { return in_quotes(word_of(key, record)); },
          [&]<typename T>(const Access<std::vector<T>>& field) {
            return list_text(field.of(record));
          },
          [&]<typename T>(const Access<T>& field) { return item_text(field.of(record)); },
      },
      key.field);
}

std::string record_text(const Schema& schema, void* record) {
  std::string text;
  for (std::string_view path : schema.paths()) {
    const Key* key = schema.row_for(path, record);
    if (key == nullptr || is_unset(*key, record)) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", path, field_text(*key, record));
  }
  return "{ " + text + " }";
}

bool is_unset(const Key& key, void* record) {
  return std::visit(
      Overload{
          [&](const Access<std::string>& field) { return field.of(record).empty(); },
          [&]<typename T>(const Access<std::vector<T>>& field) { return field.of(record).empty(); },
          [](const auto&) { return false; },
      },
      key.field);
}

std::string_view type_text(const Key& key) {
  if (key.accepts == Accepts::kIntegerToo) return "string or integer";
  if (key.is_word()) return "word";
  return std::visit(Overload{
                        [](const Access<std::string>&) { return "string"; },
                        [](const Access<double>&) { return "number"; },
                        [](const Access<bool>&) { return "true or false"; },
                        [](const Access<std::vector<std::int64_t>>&) { return "list of integers"; },
                        [](const Access<std::vector<float>>&) { return "list of numbers"; },
                        [](const Access<std::vector<std::string>>&) { return "list of strings"; },
                        [](const Access<std::vector<arch::Layer>>&) { return "list of tables"; },
                        [](const auto&) { return "integer"; },
                    },
                    key.field);
}

std::string allowed_text(const Key& key) {
  return key.is_word() ? words_text(key.words) : range_text(key.range);
}

}  // namespace tandem::job
