// The sources `idx` and `npy`: arrays of images or rows, and arrays of labels.
#include <fmt/format.h>

#include <optional>

#include "data/idx.h"
#include "data/limits.h"
#include "data/npy.h"
#include "data/source_kinds.h"

namespace tandem::data {
namespace {

// What images have as their number of channels, where a shape leaves open which dimension that is.
bool is_channels(std::int64_t extent) {
  return extent == 1 || extent == 3 || extent == 4;
}

struct Loaded {
  LabelledSamples samples;
  std::vector<std::int64_t> shape;
};

class ArraySource {
 public:
  ArraySource(const SourceConfig& config, const std::filesystem::path& directory)
      : config_(config),
        directory_(directory),
        format_(config.source == "idx" ? ArrayFormat::kIdx : ArrayFormat::kNpy) {}

  Result<Parts> load();
  Result<LabelledSamples> load_test(const Spec& spec);

 private:
  Result<ArrayFile> read(const std::filesystem::path& path) const;
  Result<Loaded> load_pair(const std::filesystem::path& images,
                           const std::filesystem::path& labels);
  Result<Labelling> learn(const Array& labels) const;
  Result<Loaded> load_own_test(const std::vector<std::int64_t>& shape);

  const SourceConfig& config_;
  const std::filesystem::path& directory_;
  const ArrayFormat format_;
  std::optional<Labelling> labelling_;  // Learnt from the first labels, or the model's.
};

Result<ArrayFile> ArraySource::read(const std::filesystem::path& path) const {
  TANDEM_ASSIGN(std::string content, read_content(path));
  auto file = parse_array(std::move(content), format_);
  if (!file.ok()) return std::move(file).error().within(path.string());
  return file;
}

Result<Labelling> ArraySource::learn(const Array& labels) const {
  // IDX labels of a whole-number type are classes, however many: that is what the format is used
  // for.
  if (format_ == ArrayFormat::kIdx) {
    return learn_labels(labels, is_float(labels.element) ? Task::kAuto : Task::kClasses,
                        "for regression, store the IDX labels as floats");
  }
  TANDEM_ASSIGN(const Task task, parse_task(config_));
  return learn_labels(labels, task);
}

Result<Loaded> ArraySource::load_pair(const std::filesystem::path& images,
                                      const std::filesystem::path& labels) {
  TANDEM_ASSIGN(ArrayFile image_file, read(images));
  TANDEM_ASSIGN(const ArrayFile label_file, read(labels));
  auto taken = take_samples(std::move(image_file));
  if (!taken.ok()) return std::move(taken).error().within(images.string());
  const std::int64_t count = taken->features.count;
  if (label_file.array.shape.empty() || label_file.array.shape[0] != count) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("{} has {} samples but {} has {} labels; they must be from the same set",
                    images.string(), count, labels.string(),
                    label_file.array.shape.empty() ? 1 : label_file.array.shape[0]));
  }
  if (!labelling_) {
    auto learnt = learn(label_file.array);
    if (!learnt.ok()) return std::move(learnt).error().within(labels.string());
    labelling_ = std::move(learnt).value();
  }
  auto targets = encode_labels(label_file.array, *labelling_);
  if (!targets.ok()) return std::move(targets).error().within(labels.string());
  Loaded loaded;
  loaded.shape = std::move(taken->shape);
  loaded.samples = {std::make_shared<const Features>(std::move(taken->features)),
                    std::make_shared<const Targets>(std::move(targets).value())};
  return loaded;
}

Result<Loaded> ArraySource::load_own_test(const std::vector<std::int64_t>& shape) {
  TANDEM_ASSIGN(const auto images,
                required_path("test_images", config_.test_images, config_, directory_));
  TANDEM_ASSIGN(const auto labels,
                required_path("test_labels", config_.test_labels, config_, directory_));
  TANDEM_ASSIGN(Loaded test, load_pair(images, labels));
  if (test.shape == shape) return test;
  return Error(Code::kInvalidArgument,
               fmt::format("{}: samples are {}, those to train on are {}", images.string(),
                           describe(test.shape), describe(shape)));
}

Result<LabelledSamples> ArraySource::load_test(const Spec& spec) {
  // Classes of a table have names, and an array's number would be taken for a place among them.
  for (std::size_t i = 0; i < spec.class_names.size(); ++i) {
    if (spec.class_names[i] == std::to_string(i)) continue;
    return Error(Code::kInvalidArgument,
                 fmt::format("the model's class {} is `{}`, which labels in an array cannot name; "
                             "give the test data as csv",
                             i, spec.class_names[i]));
  }
  labelling_ = labelling_of(spec);
  TANDEM_ASSIGN(Loaded test, load_own_test(spec.shape));
  return std::move(test.samples);
}

Result<Parts> ArraySource::load() {
  TANDEM_ASSIGN(const auto images, required_path("images", config_.images, config_, directory_));
  TANDEM_ASSIGN(const auto labels, required_path("labels", config_.labels, config_, directory_));
  TANDEM_ASSIGN(const Loaded all, load_pair(images, labels));
  const bool has_test = has_own_test(config_);
  TANDEM_ASSIGN(const Loaded own_test, has_test ? load_own_test(all.shape) : Loaded());
  const double test_share = has_test ? 0 : config_.test;
  TANDEM_ASSIGN(const Split split,
                split_samples(all.samples.features->count, {config_.validation, test_share}));
  Spec spec;
  spec.shape = all.shape;
  // Images are normalised by channel, rows by column.
  const std::int64_t groups = spec.shape[0];
  Encoding encoding;
  encoding.normalisation = config_.normalise
                               ? learn_normalisation(*all.samples.features, split.train, groups)
                               : no_normalisation(groups);
  return make_parts(std::move(spec), std::move(encoding), *labelling_, split, all.samples,
                    own_test.samples);
}

}  // namespace

Result<ArrayFile> parse_array(std::string content, ArrayFormat format) {
  ArrayFile file;
  file.content = std::make_unique<std::string>(std::move(content));
  if (format == ArrayFormat::kIdx) {
    TANDEM_ASSIGN(file.array, parse_idx(*file.content));
    return file;
  }
  TANDEM_ASSIGN(Npy npy, parse_npy(*file.content));
  file.array = std::move(npy.array);
  if (npy.order == NpyOrder::kFortran && file.array.rank() > 1) {
    *file.content = to_row_major(file.array.bytes, file.array.shape, size_of(file.array.element));
    file.array.bytes = *file.content;
  }
  return file;
}

Result<ShapedFeatures> take_samples(ArrayFile file) {
  const std::vector<std::int64_t> shape = file.array.shape;
  if (shape.size() < 2 || shape.size() > 4) {
    return Error(Code::kInvalidArgument,
                 fmt::format("an array {} holds no samples that Tandem knows: rows are NxD, images "
                             "NxHxW, NxCxHxW or "
                             "NxHxWxC",
                             describe(shape)));
  }
  if (file.array.bytes.empty()) {
    return Error(Code::kInvalidArgument, fmt::format("the array {} is empty", describe(shape)));
  }
  ShapedFeatures taken;
  TANDEM_ASSIGN(taken.features, take_features(std::move(*file.content), file.array));
  taken.shape.assign(shape.begin() + 1, shape.end());
  if (shape.size() == 3) taken.shape.insert(taken.shape.begin(), 1);
  if (shape.size() == 4 && !is_channels(shape[1]) && is_channels(shape[3])) {
    put_channels_first(taken.features, shape[1] * shape[2], shape[3]);
    taken.shape = {shape[3], shape[1], shape[2]};
  }
  return taken;
}

Result<Parts> load_arrays(const SourceConfig& config, const std::filesystem::path& directory) {
  return ArraySource(config, directory).load();
}

Result<LabelledSamples> load_test_arrays(const SourceConfig& config,
                                         const std::filesystem::path& directory, const Spec& spec) {
  return ArraySource(config, directory).load_test(spec);
}

}  // namespace tandem::data
