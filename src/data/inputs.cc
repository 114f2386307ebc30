#include "data/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>

#include "base/check.h"
#include "base/utf8.h"
#include "data/characters.h"
#include "data/idx.h"
#include "data/npy.h"
#include "data/source_kinds.h"
#include "data/table.h"

namespace tandem::data {
namespace {

Error invalid(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

// An array of one sample may lack the first dimension (28x28), and one of single numbers the last.
void add_sample_dimension(Array& array, const Spec& spec) {
  const bool has_it = array.rank() > 1 && array.shape[0] == 1;
  if (array.count() == spec.sample_size() && !has_it) array.shape.insert(array.shape.begin(), 1);
  if (array.rank() == 1 && spec.sample_size() == 1) array.shape.push_back(1);
}

Result<Features> features_of_array(std::string content, ArrayFormat format, const Spec& spec) {
  TANDEM_ASSIGN(ArrayFile file, parse_array(std::move(content), format));
  const std::string found = describe(file.array.shape);
  add_sample_dimension(file.array, spec);
  TANDEM_ASSIGN(ShapedFeatures taken, take_samples(std::move(file)));
  // Only a flat row says nothing of height, width and channels.
  const bool flat = taken.shape.size() == 1 && taken.features.width == spec.sample_size();
  if (flat || taken.shape == spec.shape) return std::move(taken.features);
  return invalid(
      fmt::format("an array {} does not hold samples of {}, which the model was trained on", found,
                  describe(spec.shape)));
}

// Whether the first row of `csv` (parsed without a header) is one. A model that knows its columns
// by name is asked for the names; one that does not tells by the numbers, where it has any.
Header find_header(const Csv& csv, const Encoding& encoding) {
  const auto named = [](const Column& column) { return !column.name.empty(); };
  const auto numeric = [](const Column& column) { return column.categories.empty(); };
  const auto& columns = encoding.columns;
  if (std::none_of(columns.begin(), columns.end(), named)) {
    return std::any_of(columns.begin(), columns.end(), numeric) ? Header::kAuto : Header::kNo;
  }
  std::set<std::string_view> names = {encoding.label_name};
  for (const Column& column : columns) names.insert(column.name);
  for (std::int64_t column = 0; column < csv.columns(); ++column) {
    if (names.contains(csv.cell(0, column))) return Header::kYes;
  }
  return Header::kNo;
}

Result<Csv> parse_table(std::string_view text, const Encoding& encoding) {
  TANDEM_ASSIGN(Csv csv, parse_csv(text, Header::kNo));
  const Header header = find_header(csv, encoding);
  return header == Header::kNo ? std::move(csv) : parse_csv(text, header);
}

Result<Features> features_of_table(std::string_view text, const Spec& spec,
                                   const Encoding& encoding) {
  Encoding columns = encoding;
  // A model of images reads a table of their pixels.
  if (columns.columns.empty()) columns.columns.resize(static_cast<std::size_t>(spec.sample_size()));
  TANDEM_ASSIGN(const Csv csv, parse_table(text, columns));
  TANDEM_ASSIGN(const auto places, find_columns(csv, columns));
  return encode_columns(csv, columns.columns, places);
}

Result<Features> read_features(const std::filesystem::path& path, const Spec& spec,
                               const Encoding& encoding) {
  TANDEM_ASSIGN(std::string content, read_content(path));
  auto features = [&]() -> Result<Features> {
    if (is_npy(content)) return features_of_array(std::move(content), ArrayFormat::kNpy, spec);
    if (is_idx(content)) return features_of_array(std::move(content), ArrayFormat::kIdx, spec);
    if (path.extension() == ".npy") return parse_npy(content).error();
    return features_of_table(content, spec, encoding);
  }();
  if (!features.ok()) return std::move(features).error().within(path.string());
  return features;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> read_inputs(const std::filesystem::path& path,
                                                   const Spec& spec, const Encoding& encoding) {
  if (spec.input != Input::kFloats) {
    return invalid("the model reads text; give it a prompt instead of a file of numbers");
  }
  TANDEM_TRY(check_encoding(spec, encoding));
  try {
    TANDEM_ASSIGN(Features features, read_features(path, spec, encoding));
    TANDEM_TRY(check_ids(features, spec));
    return whole_set(spec, {std::make_shared<const Features>(std::move(features)), nullptr},
                     encoding.normalisation);
  } catch (const std::bad_alloc&) {
    return Error(Code::kOutOfSpace, fmt::format("{}: not enough memory to hold it", path.string()));
  }
}

Result<std::vector<std::int32_t>> encode_prompt(std::string_view prompt, const Spec& spec) {
  TANDEM_CHECK(spec.input == Input::kTokens);
  if (const std::size_t bad = first_not_utf8(prompt); bad != prompt.size())
    return invalid(fmt::format("the prompt is not UTF-8 at byte {}", bad));
  auto tokens = encode_text(prompt, spec.class_names);
  if (!tokens.ok()) return std::move(tokens).error().within("prompt");
  return std::vector<std::int32_t>(tokens->begin(), tokens->end());
}

}  // namespace tandem::data
