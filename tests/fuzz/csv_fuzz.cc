// clang-format off
// Sources: src/data/csv.cc src/data/table.cc src/data/targets.cc src/data/features.cc src/data/array.cc src/base/utf8.cc src/base/check.cc src/base/result.cc src/base/text.cc
// Links: -lfmt
// clang-format on
//
// Whatever the text, CSV ends with an error or with finite inputs and targets for every row. The
// first byte chooses
// header and task.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "data/csv.h"
#include "data/table.h"
#include "data/targets.h"

namespace {

using namespace tandem;
using namespace tandem::data;

void check_inputs(const Csv& csv, std::int64_t label) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(csv.rows()));
  std::iota(rows.begin(), rows.end(), 0U);
  const auto columns = learn_columns(csv, {.label = label}, rows);
  if (!columns.ok()) return;
  Encoding encoding;
  encoding.columns = *columns;
  encoding.label_column = label;
  const auto places = find_columns(csv, encoding);
  if (!places.ok()) std::abort();
  const auto features = encode_columns(csv, *columns, *places);
  if (!features.ok()) return;
  const Normalisation normalisation = learn_normalisation(*features, rows, features->width);
  std::vector<float> sample(static_cast<std::size_t>(features->width));
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    write_sample(*features, normalisation, row, sample.data());
    for (float value : sample) {
      if (!std::isfinite(value)) std::abort();
    }
  }
}

// Row numbers that were counted are rows of their table, and nothing else gets there.
void check_row_numbers(const Csv& csv, std::int64_t label) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(csv.rows()));
  std::iota(rows.begin(), rows.end(), 0U);
  const Roles roles{.label = label, .ids = {0}};
  auto columns = learn_columns(csv, roles, rows);
  if (label == 0 || !columns.ok()) return;
  const auto places = input_places(csv, roles);
  if (!grow_tables(csv, places, *columns).ok()) return;
  const auto features = encode_columns(csv, *columns, places);
  if (!features.ok()) return;
  const IdColumn ids = ids_of(*columns).front();
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    const float number = features->floats_of(row)[ids.input];
    if (!(number >= 0 && number < static_cast<float>(ids.rows))) std::abort();
  }
}

void check_targets(const Csv& csv, std::int64_t label, Task task) {
  const auto labelling = learn_labels(csv, label, task);
  if (!labelling.ok()) return;
  const auto targets = encode_labels(csv, label, *labelling);
  if (!targets.ok()) return;
  const std::size_t count = targets->classes.size() + targets->values.size();
  if (count != static_cast<std::size_t>(csv.rows())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto header = static_cast<Header>(data[0] % 3);
  const auto task = static_cast<Task>(data[0] / 3 % 3);
  const auto csv = parse_csv({reinterpret_cast<const char*>(data) + 1, size - 1}, header);
  if (!csv.ok()) return 0;
  const auto label = find_label(*csv, "");
  if (!label.ok()) std::abort();
  check_inputs(*csv, *label);
  check_row_numbers(*csv, *label);
  check_targets(*csv, *label, task);
  return 0;
}
