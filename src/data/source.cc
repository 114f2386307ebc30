#include "data/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <new>
#include <numeric>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "data/gzip.h"
#include "data/memory.h"
#include "data/source_kinds.h"
#include "data/table.h"

namespace tandem::data {
namespace {

constexpr std::array<std::string_view, 6> kSources = {"digits", "idx",  "csv",
                                                      "npy",    "text", "ratings"};

// What `./dev data NAME` puts into data/NAME/ (tools/data.sh); jobs in examples/ read it there.
constexpr std::array<std::string_view, 4> kFetched = {"mnist", "fashion-mnist", "austen",
                                                      "movielens"};

// Says how to get a file of such a set that is not there.
Error missing(const std::filesystem::path& path, Error error) {
  const std::filesystem::path set = path.parent_path();
  const std::string name = set.filename().string();
  if (error.code() != Code::kNotFound || set.parent_path().filename() != "data" ||
      std::ranges::find(kFetched, name) == kFetched.end())
    return error;
  return Error(error.code(), fmt::format("{}; `./dev data {}` fetches it", error.message(), name));
}

Result<Parts> load_kind(const SourceConfig& config, const std::filesystem::path& directory) {
  if (config.source == "digits") return load_digits(config);
  if (config.source == "idx" || config.source == "npy") return load_arrays(config, directory);
  if (config.source == "csv") return load_table(config, directory);
  if (config.source == "text") return load_text(config, directory);
  if (config.source == "ratings") return load_ratings(config);
  const std::string_view meant = nearest(config.source, kSources);
  return Error(Code::kInvalidArgument,
               fmt::format("unknown data.source \"{}\"; {}", config.source,
                           meant.empty() ? fmt::format("known are {}", fmt::join(kSources, ", "))
                                         : fmt::format("did you mean \"{}\"?", meant)));
}

Result<std::shared_ptr<const Dataset>> load_own_test_kind(const SourceConfig& config,
                                                          const std::filesystem::path& directory,
                                                          const Spec& spec,
                                                          const Encoding& encoding) {
  TANDEM_CHECK(has_own_test(config));
  const bool text = config.source == "text";
  if (text != (spec.input == Input::kTokens)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("data.source = \"{}\" does not fit the model, which was trained on {}",
                             config.source, text ? "numbers" : "text"));
  }
  if (text) return load_test_text(config, directory, spec);
  TANDEM_TRY(check_encoding(spec, encoding));
  TANDEM_ASSIGN(const LabelledSamples samples,
                config.source == "csv" ? load_test_table(config, directory, spec, encoding)
                                       : load_test_arrays(config, directory, spec));
  TANDEM_TRY(check_ids(*samples.features, spec));
  return whole_set(spec, samples, encoding.normalisation);
}

// Row numbers reach the model as they are, and are checked against the tables that it has.
bool ids_fit(const Spec& spec, const Encoding& encoding) {
  if (ids_of(encoding.columns) != spec.ids) return false;
  const Normalisation& numbers = encoding.normalisation;
  return std::all_of(spec.ids.begin(), spec.ids.end(), [&](const IdColumn& column) {
    const auto input = static_cast<std::size_t>(column.input);
    return std::cmp_equal(numbers.mean.size(), spec.sample_size()) && numbers.mean[input] == 0 &&
           numbers.inverse_deviation[input] == 1;
  });
}

template <typename Load>
auto without_exceptions(const SourceConfig& config, Load load) -> decltype(load()) {
  try {
    return load();
  } catch (const std::bad_alloc&) {
    return Error(Code::kOutOfSpace,
                 fmt::format("not enough memory for the data of source \"{}\"", config.source));
  } catch (const std::exception& exception) {
    return Error(Code::kInternal, fmt::format("load data: {}", exception.what()));
  }
}

}  // namespace

Result<Parts> load(const SourceConfig& config, const std::filesystem::path& base_directory) {
  return without_exceptions(config, [&] { return load_kind(config, base_directory); });
}

bool has_own_test(const SourceConfig& config) {
  if (config.source == "idx" || config.source == "npy")
    return !config.test_images.empty() || !config.test_labels.empty();
  return (config.source == "csv" || config.source == "text") && !config.test_path.empty();
}

Result<std::shared_ptr<const Dataset>> load_own_test(const SourceConfig& config,
                                                     const std::filesystem::path& base_directory,
                                                     const Spec& spec, const Encoding& encoding) {
  return without_exceptions(
      config, [&] { return load_own_test_kind(config, base_directory, spec, encoding); });
}

Labelling labelling_of(const Spec& spec) {
  Labelling labelling;
  labelling.target = spec.target;
  labelling.class_names = spec.class_names;
  if (spec.target == Target::kValue) labelling.width = spec.target_width;
  return labelling;
}

Status check_encoding(const Spec& spec, const Encoding& encoding) {
  const std::size_t groups = encoding.normalisation.mean.size();
  std::int64_t width = 0;
  for (const Column& column : encoding.columns) width += column.width();
  const bool fits = groups > 0 && groups == encoding.normalisation.inverse_deviation.size() &&
                    spec.sample_size() % static_cast<std::int64_t>(groups) == 0 &&
                    (encoding.columns.empty() || width == spec.sample_size());
  if (fits && ids_fit(spec, encoding)) return {};
  return Error(Code::kCorrupt,
               "the model's data encoding does not fit its inputs; the model file is damaged");
}

Status check_ids(const Features& features, const Spec& spec) {
  for (const IdColumn& column : spec.ids) {
    for (std::int64_t sample = 0; sample < features.count; ++sample) {
      const float number = features.is_8_bit()
                               ? static_cast<float>(features.bytes_of(sample)[column.input])
                               : features.floats_of(sample)[column.input];
      if (number >= 0 && number < static_cast<float>(column.rows) && number == std::floor(number))
        continue;
      return Error(Code::kInvalidArgument,
                   fmt::format("sample {}: input {} is {}, where the model has a table of {} rows, "
                               "from 0 to {}",
                               sample, column.input, number, column.rows, column.rows - 1));
    }
  }
  return {};
}

std::shared_ptr<const Dataset> whole_set(const Spec& spec, const LabelledSamples& samples,
                                         const Normalisation& normalisation) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(samples.features->count));
  std::iota(rows.begin(), rows.end(), 0U);
  return std::make_shared<const SampleSet>(spec, samples.features, samples.targets, normalisation,
                                           std::move(rows));
}

Result<std::string> read_content(const std::filesystem::path& path) {
  auto content = read_file(path);
  if (!content.ok()) return missing(path, std::move(content).error());
  if (!is_gzip(*content)) return content;
  auto inflated = inflate_gzip(*content);
  if (!inflated.ok()) return std::move(inflated).error().within(path.string());
  return inflated;
}

Parts make_parts(Spec spec, Encoding encoding, const Labelling& labelling, const Split& split,
                 const LabelledSamples& all, const LabelledSamples& own_test) {
  spec.target = labelling.target;
  spec.classes = static_cast<std::int64_t>(labelling.class_names.size());
  spec.class_names = labelling.class_names;
  spec.target_width = labelling.target == Target::kValue ? labelling.width : 0;
  const auto part = [&](const LabelledSamples& samples,
                        std::vector<std::uint32_t> rows) -> std::shared_ptr<const Dataset> {
    return std::make_shared<const SampleSet>(spec, samples.features, samples.targets,
                                             encoding.normalisation, std::move(rows));
  };
  Parts parts;
  parts.train = part(all, split.train);
  parts.validation = part(all, split.validation);
  parts.test =
      own_test.features ? whole_set(spec, own_test, encoding.normalisation) : part(all, split.test);
  parts.spec = std::move(spec);
  parts.encoding = std::move(encoding);
  return parts;
}

Result<std::filesystem::path> required_path(std::string_view key, const std::string& value,
                                            const SourceConfig& config,
                                            const std::filesystem::path& directory) {
  if (!value.empty()) return directory / value;
  return Error(Code::kInvalidArgument,
               fmt::format("data.{} is not set; source = \"{}\" needs it", key, config.source));
}

Result<Task> parse_task(const SourceConfig& config) {
  if (config.task == "auto") return Task::kAuto;
  if (config.task == "classes") return Task::kClasses;
  if (config.task == "values") return Task::kValues;
  return Error(
      Code::kInvalidArgument,
      fmt::format("data.task = \"{}\" is not known; use auto, classes or values", config.task));
}

}  // namespace tandem::data
