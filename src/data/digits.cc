// The source `digits`: 1,797 handwritten digits of 8x8 pixels, embedded in the program. Where they
// come from, and their licence, stands in digits.LICENSE beside this file.
#include <numeric>

#include "base/check.h"
#include "data/csv.h"
#include "data/gzip.h"
#include "data/source_kinds.h"

asm(R"(
  .pushsection .rodata, "a"
  .global tandem_data_digits_first
  .hidden tandem_data_digits_first
  .global tandem_data_digits_last
  .hidden tandem_data_digits_last
tandem_data_digits_first:
  .incbin "digits.csv.gz"
tandem_data_digits_last:
  .popsection
)");

extern "C" {
extern const char tandem_data_digits_first[];
extern const char tandem_data_digits_last[];
}

namespace tandem::data {
namespace {

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kPixels = kSide * kSide;
constexpr std::int64_t kDigits = 10;

std::uint8_t small_number(std::string_view cell) {
  const auto number = parse_number(cell);
  TANDEM_CHECK(number && *number >= 0 && *number <= 16);
  return static_cast<std::uint8_t>(*number);
}

Labelling digit_names() {
  Labelling labelling;
  for (std::int64_t digit = 0; digit < kDigits; ++digit)
    labelling.class_names.push_back(std::to_string(digit));
  return labelling;
}

}  // namespace

Result<Parts> load_digits(const SourceConfig& config) {
  const auto bytes = static_cast<std::size_t>(tandem_data_digits_last - tandem_data_digits_first);
  TANDEM_ASSIGN(const std::string text, inflate_gzip({tandem_data_digits_first, bytes}));
  TANDEM_ASSIGN(const Csv csv, parse_csv(text, Header::kNo));
  TANDEM_CHECK(csv.columns() == kPixels + 1);
  Features features;
  Targets targets;
  features.count = csv.rows();
  features.width = kPixels;
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    for (std::int64_t pixel = 0; pixel < kPixels; ++pixel) {
      features.bytes.push_back(static_cast<char>(small_number(csv.cell(row, pixel))));
    }
    targets.classes.push_back(small_number(csv.cell(row, kPixels)));
  }
  TANDEM_ASSIGN(const Split split, split_samples(csv.rows(), {config.validation, config.test}));
  Spec spec;
  spec.shape = {1, kSide, kSide};
  Encoding encoding;  // With columns, so that predict reads the same table of pixels.
  encoding.columns.resize(kPixels);
  encoding.label_column = kPixels;
  encoding.normalisation =
      config.normalise ? learn_normalisation(features, split.train, 1) : no_normalisation(1);
  const LabelledSamples all{std::make_shared<const Features>(std::move(features)),
                            std::make_shared<const Targets>(std::move(targets))};
  return make_parts(std::move(spec), std::move(encoding), digit_names(), split, all, {});
}

}  // namespace tandem::data
