// The source `csv`.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "data/csv.h"
#include "data/source_kinds.h"
#include "data/table.h"

namespace tandem::data {
namespace {

struct TableFile {
  std::unique_ptr<std::string> content;  // At a fixed place: `csv` looks into it.
  Csv csv;
};

Result<Header> parse_header(const std::string& header) {
  if (header == "auto") return Header::kAuto;
  if (header == "yes") return Header::kYes;
  if (header == "no") return Header::kNo;
  return Error(Code::kInvalidArgument,
               fmt::format("data.header = \"{}\" is not known; use auto, yes or no", header));
}

Result<TableFile> read_table(const std::filesystem::path& path, Header header) {
  TANDEM_ASSIGN(std::string content, read_content(path));
  TableFile file;
  file.content = std::make_unique<std::string>(std::move(content));
  auto csv = parse_csv(*file.content, header);
  if (!csv.ok()) return std::move(csv).error().within(path.string());
  file.csv = std::move(csv).value();
  return file;
}

// Numbers are normalised; a category's inputs stay 0 and 1, and rows of tables what they are.
Normalisation normalise_numbers(const Features& features, const Split& split,
                                const std::vector<Column>& columns) {
  Normalisation normalisation = learn_normalisation(features, split.train, features.width);
  std::size_t input = 0;
  for (const Column& column : columns) {
    const std::size_t kept = column.rows > 0 ? 1 : column.categories.size();
    for (std::size_t i = 0; i < kept; ++i) {
      normalisation.mean[input + i] = 0.0F;
      normalisation.inverse_deviation[input + i] = 1.0F;
    }
    input += static_cast<std::size_t>(column.width());
  }
  return normalisation;
}

Result<LabelledSamples> encode(const Csv& csv, std::int64_t label,
                               const std::vector<Column>& columns,
                               const std::vector<std::int64_t>& places,
                               const Labelling& labelling) {
  TANDEM_ASSIGN(Features features, encode_columns(csv, columns, places));
  TANDEM_ASSIGN(Targets targets, encode_labels(csv, label, labelling));
  return LabelledSamples{std::make_shared<const Features>(std::move(features)),
                         std::make_shared<const Targets>(std::move(targets))};
}

// Gives the columns of `ids` the rows that the job says, or as many as the file needs.
Status size_tables(const Csv& csv, const Roles& roles, const std::vector<std::int64_t>& places,
                   const std::vector<std::int64_t>& rows, std::vector<Column>& columns) {
  if (rows.empty()) return grow_tables(csv, places, columns);
  if (rows.size() != roles.ids.size()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("data.rows has {} numbers, data.categorical {} columns", rows.size(),
                             roles.ids.size()));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto place = std::find(places.begin(), places.end(), roles.ids[i]);
    columns[static_cast<std::size_t>(place - places.begin())].rows = rows[i];
  }
  return {};
}

// Everything that is learnt from the training file, and its samples.
struct Learnt {
  Spec spec;
  Encoding encoding;
  Labelling labelling;
  Split split;
  LabelledSamples samples;
};

Result<Learnt> learn(const Csv& csv, const SourceConfig& config, Shares shares) {
  Learnt learnt;
  TANDEM_ASSIGN(const Task task, parse_task(config));
  TANDEM_ASSIGN(const Roles roles,
                find_roles(csv, config.label, config.categorical, config.ignore));
  const std::int64_t label = roles.label;
  TANDEM_ASSIGN(learnt.split, split_samples(csv.rows(), shares));
  TANDEM_ASSIGN(learnt.labelling, learn_labels(csv, label, task));
  Encoding& encoding = learnt.encoding;
  TANDEM_ASSIGN(encoding.columns, learn_columns(csv, roles, learnt.split.train));
  const std::vector<std::int64_t> places = input_places(csv, roles);
  TANDEM_TRY(size_tables(csv, roles, places, config.rows, encoding.columns));
  encoding.label_column = label;
  if (!csv.header().empty()) encoding.label_name = csv.header()[static_cast<std::size_t>(label)];
  TANDEM_ASSIGN(learnt.samples, encode(csv, label, encoding.columns, places, learnt.labelling));
  const Features& features = *learnt.samples.features;
  learnt.spec.shape = {features.width};
  encoding.normalisation = config.normalise
                               ? normalise_numbers(features, learnt.split, encoding.columns)
                               : no_normalisation(features.width);
  return learnt;
}

// The test file has the training file's columns: by name when both have a header, by place
// otherwise.
Result<LabelledSamples> encode_test(const Csv& csv, const Encoding& encoding,
                                    const Labelling& labelling) {
  TANDEM_ASSIGN(const auto places, find_columns(csv, encoding));
  const bool named = !csv.header().empty() && !encoding.label_name.empty();
  TANDEM_ASSIGN(
      const std::int64_t label,
      find_label(csv, named ? encoding.label_name : std::to_string(encoding.label_column)));
  if (std::find(places.begin(), places.end(), label) != places.end()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the file has no label: its {} columns are those that the model reads",
                             csv.columns()));
  }
  return encode(csv, label, encoding.columns, places, labelling);
}

// What data.label says for the test file when it is not what the model was trained with.
void take_label(const std::string& label, Encoding& encoding) {
  if (label.empty() || label == encoding.label_name) return;
  std::int64_t number = 0;
  const char* const end = label.data() + label.size();
  const auto [stop, error] = std::from_chars(label.data(), end, number);
  if (error != std::errc() || stop != end) {
    encoding.label_name = label;
    return;
  }
  if (number < 0) number += static_cast<std::int64_t>(encoding.columns.size()) + 1;
  if (number == encoding.label_column) return;
  encoding.label_name.clear();
  encoding.label_column = number;
}

Result<TableFile> read_test(const SourceConfig& config, const std::filesystem::path& directory) {
  TANDEM_ASSIGN(const Header header, parse_header(config.header));
  return read_table(directory / config.test_path, header);
}

// Tables whose size the job does not say have the rows of the test file, too.
Status grow_for_test(const Csv& csv, const SourceConfig& config,
                     const std::filesystem::path& directory, Encoding& encoding) {
  if (config.categorical.empty() || !config.rows.empty()) return {};
  auto grown = [&]() -> Status {
    TANDEM_ASSIGN(const auto places, find_columns(csv, encoding));
    return grow_tables(csv, places, encoding.columns);
  }();
  if (grown.ok()) return {};
  return std::move(grown).error().within((directory / config.test_path).string());
}

Result<LabelledSamples> take_test(const TableFile& file, const SourceConfig& config,
                                  const std::filesystem::path& directory, Encoding encoding,
                                  const Labelling& labelling) {
  auto encoded = [&]() -> Result<LabelledSamples> {
    if (encoding.label_column < 0) {
      TANDEM_ASSIGN(encoding.label_column, find_label(file.csv, config.label));
    }
    return encode_test(file.csv, encoding, labelling);
  }();
  if (encoded.ok()) return encoded;
  return std::move(encoded).error().within((directory / config.test_path).string());
}

}  // namespace

Result<Parts> load_table(const SourceConfig& config, const std::filesystem::path& directory) {
  TANDEM_ASSIGN(const Header header, parse_header(config.header));
  TANDEM_ASSIGN(const auto path, required_path("path", config.path, config, directory));
  TANDEM_ASSIGN(const TableFile file, read_table(path, header));
  const bool has_test = has_own_test(config);
  auto learnt = learn(file.csv, config, {config.validation, has_test ? 0 : config.test});
  if (!learnt.ok()) return std::move(learnt).error().within(path.string());
  LabelledSamples own_test;
  if (has_test) {
    TANDEM_ASSIGN(const TableFile test, read_test(config, directory));
    TANDEM_TRY(grow_for_test(test.csv, config, directory, learnt->encoding));
    TANDEM_ASSIGN(own_test,
                  take_test(test, config, directory, learnt->encoding, learnt->labelling));
  }
  learnt->spec.ids = ids_of(learnt->encoding.columns);
  return make_parts(std::move(learnt->spec), std::move(learnt->encoding), learnt->labelling,
                    learnt->split, learnt->samples, own_test);
}

Result<LabelledSamples> load_test_table(const SourceConfig& config,
                                        const std::filesystem::path& directory, const Spec& spec,
                                        const Encoding& encoding) {
  if (spec.target == Target::kValue && spec.target_width != 1) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the model gives {} values a sample, a table has one label; give the "
                             "test data as npy",
                             spec.target_width));
  }
  Encoding columns = encoding;
  // A model of arrays reads a table of their numbers.
  if (columns.columns.empty()) columns.columns.resize(static_cast<std::size_t>(spec.sample_size()));
  if (columns.label_column >= 0) take_label(config.label, columns);
  TANDEM_ASSIGN(const TableFile file, read_test(config, directory));
  return take_test(file, config, directory, std::move(columns), labelling_of(spec));
}

}  // namespace tandem::data
