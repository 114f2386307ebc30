#include "data/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.h"
#include "data/limits.h"

namespace tandem::data {
namespace {

using nlohmann::json;

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;
constexpr std::size_t kMostRank = 8;

// Bytes that are not UTF-8 cannot stand in JSON. None get here: the sources refuse them.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The fields of a JSON object, each checked as it is read. The first failure is kept; what is read
// after it is void.
class Fields {
 public:
  Fields(const json& object, std::string_view what) : object_(object), what_(what) {
    if (!object.is_object()) fail("not an object");
  }

  // Null when the field is absent or something failed before.
  const json* field(const char* key) {
    if (error_) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    fail(fmt::format("no `{}`", key));
    return nullptr;
  }

  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) {
    const json* const value = field(key);
    if (value == nullptr) return least;
    if (value->is_number_integer()) {
      const auto number = value->get<std::int64_t>();
      const bool wrapped = value->is_number_unsigned() && number < 0;
      if (!wrapped && number >= least && number <= most) return number;
    }
    fail(fmt::format("`{}` is not a whole number from {} to {}", key, least, most));
    return least;
  }

  std::string text(const char* key) {
    const json* const value = field(key);
    if (value == nullptr) return {};
    if (!value->is_string()) {
      fail(fmt::format("`{}` is no text", key));
      return {};
    }
    return value->get<std::string>();
  }

  std::vector<std::string> texts(const char* key, std::int64_t most) {
    std::vector<std::string> out;
    for (const json& value : array(key, most)) {
      if (!value.is_string()) {
        fail(fmt::format("`{}` holds what is no text", key));
        return {};
      }
      out.push_back(value.get<std::string>());
    }
    return out;
  }

  std::vector<float> floats(const char* key, std::int64_t most) {
    std::vector<float> out;
    for (const json& value : array(key, most)) {
      const float number = value.is_number() ? static_cast<float>(value.get<double>()) : NAN;
      if (!std::isfinite(number)) {
        fail(fmt::format("`{}` holds what is no finite number", key));
        return {};
      }
      out.push_back(number);
    }
    return out;
  }

  const json& array(const char* key, std::int64_t most) {
    static const json kNone = json::array();
    const json* const value = field(key);
    if (value == nullptr) return kNone;
    if (value->is_array() && std::cmp_less_equal(value->size(), most)) return *value;
    fail(fmt::format("`{}` is no list of at most {}", key, most));
    return kNone;
  }

  void require(bool condition, std::string_view message) {
    if (!condition) fail(std::string(message));
  }

  void fail(const std::string& message) {
    if (!error_) error_ = Error(Code::kCorrupt, fmt::format("{}: {}", what_, message));
  }

  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  const json& object_;
  std::string_view what_;
  std::optional<Error> error_;
};

Result<json> parse(std::string_view text, std::string_view what) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) return Error(Code::kCorrupt, fmt::format("{}: not JSON", what));
  return value;
}

Result<Column> column_from(const json& object) {
  Fields fields(object, "a column of the data encoding");
  Column column;
  column.name = fields.text("name");
  if (object.is_object() && object.contains("categories")) {
    column.categories = fields.texts("categories", kMostCategories);
    const bool sorted = std::adjacent_find(column.categories.begin(), column.categories.end(),
                                           std::greater_equal<>()) == column.categories.end();
    fields.require(!column.categories.empty() && sorted,
                   "`categories` are not sorted and distinct");
  }
  if (object.is_object() && object.contains("rows")) {
    column.rows = fields.integer("rows", 1, kMostRows);
    fields.require(column.categories.empty(), "`rows` beside `categories`");
  }
  TANDEM_TRY(fields.status());
  return column;
}

Result<IdColumn> id_column_from(const json& object, const Spec& spec) {
  Fields fields(object, "a column of row numbers");
  IdColumn column;
  column.input = fields.integer("input", 0, spec.sample_size() - 1);
  column.rows = fields.integer("rows", 1, kMostRows);
  fields.require(spec.ids.empty() || spec.ids.back().input < column.input, "not in order");
  TANDEM_TRY(fields.status());
  return column;
}

// Every name a single character, in the order that encode_text() needs.
bool is_vocabulary(const std::vector<std::string>& names) {
  const auto single = [](const std::string& name) {
    return !name.empty() && std::cmp_equal(decode_utf8(name).bytes, name.size());
  };
  return std::all_of(names.begin(), names.end(), single) &&
         std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end();
}

void read_shape(Fields& fields, Spec& spec) {
  std::int64_t size = 1;
  for (const json& extent : fields.array("shape", kMostRank)) {
    const bool whole = extent.is_number_integer();
    const std::int64_t number = whole ? extent.get<std::int64_t>() : 0;
    if (number < 1 || number > kMostExtent || size > kMostExtent / number) {
      fields.fail("`shape` is impossible");
      return;
    }
    size *= number;
    spec.shape.push_back(number);
  }
  fields.require(!spec.shape.empty(), "`shape` is empty");
}

}  // namespace

std::string to_json(const Spec& spec) {
  json object = {{"version", kVersion},
                 {"input", spec.input == Input::kTokens ? "tokens" : "floats"},
                 {"shape", spec.shape},
                 {"target", spec.target == Target::kValue ? "value" : "class"},
                 {"classes", spec.classes},
                 {"targets_per_sample", spec.targets_per_sample},
                 {"target_width", spec.target_width},
                 {"class_names", spec.class_names}};
  for (const IdColumn& column : spec.ids) {
    object["ids"].push_back({{"input", column.input}, {"rows", column.rows}});
  }
  return dump(object);
}

std::string to_json(const Encoding& encoding) {
  json columns = json::array();
  for (const Column& column : encoding.columns) {
    json object = {{"name", column.name}};
    if (!column.categories.empty()) object["categories"] = column.categories;
    if (column.rows > 0) object["rows"] = column.rows;
    columns.push_back(std::move(object));
  }
  return dump({{"version", kVersion},
               {"mean", encoding.normalisation.mean},
               {"inverse_deviation", encoding.normalisation.inverse_deviation},
               {"columns", std::move(columns)},
               {"label_name", encoding.label_name},
               {"label_column", encoding.label_column}});
}

Result<Spec> spec_from_json(std::string_view text) {
  constexpr std::string_view kWhat = "data description";
  TANDEM_ASSIGN(const json object, parse(text, kWhat));
  Fields fields(object, kWhat);
  Spec spec;
  fields.integer("version", kVersion, kVersion);
  const std::string input = fields.text("input");
  const std::string target = fields.text("target");
  fields.require(input == "tokens" || input == "floats", "`input` is neither tokens nor floats");
  fields.require(target == "value" || target == "class", "`target` is neither value nor class");
  spec.input = input == "tokens" ? Input::kTokens : Input::kFloats;
  spec.target = target == "value" ? Target::kValue : Target::kClass;
  read_shape(fields, spec);
  spec.classes = fields.integer("classes", 0, kMostClasses);
  spec.targets_per_sample = fields.integer("targets_per_sample", 1, kMostExtent);
  spec.target_width = fields.integer("target_width", 0, kMostExtent);
  spec.class_names = fields.texts("class_names", kMostClasses);
  fields.require(std::cmp_equal(spec.class_names.size(), spec.classes),
                 "`class_names` are not `classes` many");
  fields.require(spec.target == Target::kValue ? spec.target_width > 0 : spec.classes > 0,
                 "there are no targets");
  if (spec.input == Input::kTokens) {
    fields.require(spec.classes <= kMostVocabulary && is_vocabulary(spec.class_names),
                   "no vocabulary");
  }
  TANDEM_TRY(fields.status());
  if (!object.contains("ids")) return spec;
  for (const json& column : fields.array("ids", kMostColumns)) {
    TANDEM_ASSIGN(const IdColumn id, id_column_from(column, spec));
    spec.ids.push_back(id);
  }
  TANDEM_TRY(fields.status());
  return spec;
}

Result<Encoding> encoding_from_json(std::string_view text) {
  constexpr std::string_view kWhat = "data encoding";
  TANDEM_ASSIGN(const json object, parse(text, kWhat));
  Fields fields(object, kWhat);
  Encoding encoding;
  fields.integer("version", kVersion, kVersion);
  encoding.normalisation.mean = fields.floats("mean", kMostFeatures);
  encoding.normalisation.inverse_deviation = fields.floats("inverse_deviation", kMostFeatures);
  fields.require(
      encoding.normalisation.mean.size() == encoding.normalisation.inverse_deviation.size(),
      "`mean` and `inverse_deviation` differ in length");
  for (const json& column : fields.array("columns", kMostColumns)) {
    TANDEM_ASSIGN(encoding.columns.emplace_back(), column_from(column));
  }
  encoding.label_name = fields.text("label_name");
  encoding.label_column = fields.integer("label_column", -1, kMostColumns);
  TANDEM_TRY(fields.status());
  return encoding;
}

}  // namespace tandem::data
