// How each kind of source is loaded; load() in source.cc chooses among them. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/features.h"
#include "data/source.h"
#include "data/split.h"
#include "data/targets.h"

namespace tandem::data {

Result<Parts> load_digits(const SourceConfig& config);
Result<Parts> load_arrays(const SourceConfig& config, const std::filesystem::path& directory);
Result<Parts> load_table(const SourceConfig& config, const std::filesystem::path& directory);
Result<Parts> load_text(const SourceConfig& config, const std::filesystem::path& directory);
Result<Parts> load_ratings(const SourceConfig& config);

// Samples of one file with their targets.
struct LabelledSamples {
  std::shared_ptr<const Features> features;
  std::shared_ptr<const Targets> targets;
};

// The test files alone, as a model of this Spec and Encoding reads them.
Result<LabelledSamples> load_test_arrays(const SourceConfig& config,
                                         const std::filesystem::path& directory, const Spec& spec);
Result<LabelledSamples> load_test_table(const SourceConfig& config,
                                        const std::filesystem::path& directory, const Spec& spec,
                                        const Encoding& encoding);
Result<std::shared_ptr<const Dataset>> load_test_text(const SourceConfig& config,
                                                      const std::filesystem::path& directory,
                                                      const Spec& spec);

// What the labels of a model's training data were.
Labelling labelling_of(const Spec& spec);

// kCorrupt when an encoding that was stored with a model does not fit the Spec beside it.
Status check_encoding(const Spec& spec, const Encoding& encoding);

// kInvalidArgument when an input that is a row number is none of its table's.
Status check_ids(const Features& features, const Spec& spec);

// All the samples, in their order.
std::shared_ptr<const Dataset> whole_set(const Spec& spec, const LabelledSamples& samples,
                                         const Normalisation& normalisation);

// The file's content, inflated if it is gzip. Errors name the path.
Result<std::string> read_content(const std::filesystem::path& path);

// An IDX or npy file and what it holds.
struct ArrayFile {
  std::unique_ptr<std::string> content;  // At a fixed place: `array` looks into it.
  Array array;
};
enum class ArrayFormat : std::uint8_t { kIdx, kNpy };
Result<ArrayFile> parse_array(std::string content, ArrayFormat format);

// The samples in an array, with the shape of one: {C, H, W} for images, {N} for a plain row.
struct ShapedFeatures {
  Features features;
  std::vector<std::int64_t> shape;
};
Result<ShapedFeatures> take_samples(ArrayFile file);

// `split` numbers the samples of `all`; its test part is empty when there are `own_test` samples
// (features not null). `encoding` comes with its normalisation. The Spec's target fields are filled
// from `labelling`.
Parts make_parts(Spec spec, Encoding encoding, const Labelling& labelling, const Split& split,
                 const LabelledSamples& all, const LabelledSamples& own_test);

// The path that `value` means, or kInvalidArgument naming the key when it is empty.
Result<std::filesystem::path> required_path(std::string_view key, const std::string& value,
                                            const SourceConfig& config,
                                            const std::filesystem::path& directory);

Result<Task> parse_task(const SourceConfig& config);

}  // namespace tandem::data
