#include "train/saved_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/span_math.h"
#include "data/json.h"
#include "job/parse.h"
#include "job/print.h"
#include "model/libraries.h"
#include "train/recipe.h"

namespace tandem::train {
namespace {

// The keys of the metadata, documented in docs/model-files.md.
constexpr const char* kJob = "tandem.job";
constexpr const char* kSpec = "tandem.data.spec";
constexpr const char* kKernels = "tandem.kernels";
constexpr const char* kEncoding = "tandem.data.encoding";

std::span<float> values_of(model::Model& model, const arch::Slot& slot) {
  const std::span<float> all =
      slot.kind == arch::SlotKind::kParameter ? model.parameters() : model.buffers();
  return all.subspan(static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(slot.size));
}

// Numbers that are none would spread silently.
Status check_finite(const checkpoint::ModelFile& file, const checkpoint::Tensor& tensor) {
  const std::size_t bad = first_not_finite(tensor.values);
  if (bad == tensor.values.size()) return {};
  return Error(Code::kCorrupt,
               fmt::format("{}: tensor `{}` holds {} at place {}", file.path.string(), tensor.name,
                           tensor.values[bad], bad));
}

Result<std::string> field(const checkpoint::ModelFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found != file.metadata.end()) return found->second;
  return Error(
      Code::kInvalidArgument,
      fmt::format("{} has no `{}` in its metadata: it was not trained by tandem; it can serve as "
                  "model.init_from only",
                  file.path.string(), key));
}

bool is_table(const arch::Blueprint& blueprint, const arch::Slot& slot) {
  return std::any_of(blueprint.tables.begin(), blueprint.tables.end(), [&](const auto& table) {
    return &blueprint.slots[static_cast<std::size_t>(table.slot)] == &slot;
  });
}

// The rows that a file has, into a table whose rows are as they begin.
Status fill_table(const checkpoint::ModelFile& file, const arch::Slot& slot,
                  std::span<float> values) {
  const std::string keys_name = slot.name + std::string(checkpoint::kKeysSuffix);
  const checkpoint::IntegerTensor* const keys = file.find_keys(keys_name);
  const checkpoint::Tensor* const rows =
      file.find(slot.name + std::string(checkpoint::kRowsSuffix));
  const std::int64_t width = slot.shape[1];
  if (keys == nullptr || rows == nullptr || keys->shape.size() != 1 ||
      rows->shape != checkpoint::Shape{keys->shape[0], width}) {
    return Error(Code::kCorrupt, fmt::format("{}: the keys and rows of table `{}`, {} wide, are "
                                             "missing or do not fit",
                                             file.path.string(), slot.name, width));
  }
  TANDEM_TRY(check_finite(file, *rows));
  const float* from = rows->values.data();
  std::int64_t last = -1;
  for (const std::int64_t key : keys->values) {
    if (key < 0 || key >= slot.shape[0]) {
      return Error(Code::kCorrupt, fmt::format("{}: `{}` has {}, and the table {} rows",
                                               file.path.string(), keys_name, key, slot.shape[0]));
    }
    if (key <= last) {
      return Error(Code::kCorrupt, fmt::format("{}: `{}` does not ascend: {} comes after {}",
                                               file.path.string(), keys_name, key, last));
    }
    last = key;
    std::copy_n(from, width, values.begin() + key * width);
    from += width;
  }
  return {};
}

}  // namespace

std::string kernel_set() {
  std::string text;
  for (const auto& [name, value] : model::library_facts()) {
    if (!text.empty()) text += "; ";
    text += name + "=" + value;
  }
  return text;
}

checkpoint::ModelContent weights_content(const arch::Blueprint& blueprint,
                                         std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         checkpoint::Metadata metadata, const TableFiles* tables) {
  checkpoint::ModelContent content;
  if (tables != nullptr) content.parameters = tables->keys();
  for (const arch::Slot& slot : blueprint.slots) {
    if (is_window(blueprint, slot)) {
      // Tables are the first slots, in their order.
      content.parameters.push_back(
          tables->rows(static_cast<std::size_t>(&slot - blueprint.slots.data())));
      continue;
    }
    const bool trained = slot.kind == arch::SlotKind::kParameter;
    auto& list = trained ? content.parameters : content.buffers;
    list.push_back(
        {slot.name, slot.shape,
         (trained ? parameters : buffers)
             .subspan(static_cast<std::size_t>(slot.offset - (trained ? blueprint.window : 0)),
                      static_cast<std::size_t>(slot.size))});
  }
  content.metadata = std::move(metadata);
  return content;
}

checkpoint::Metadata trained_metadata(const job::Job& job, const data::Parts& parts) {
  return {{kJob, job::print(job)},
          {kSpec, data::to_json(parts.spec)},
          {kEncoding, data::to_json(parts.encoding)},
          {kKernels, kernel_set()}};
}

Result<std::string> save_trained(const std::filesystem::path& directory, const job::Job& job,
                                 const data::Parts& parts, model::Model& model,
                                 const TableFiles* tables) {
  const checkpoint::ModelContent content =
      weights_content(model.blueprint(), kept(model.blueprint(), model.parameters()),
                      model.buffers(), trained_metadata(job, parts), tables);
  TANDEM_ASSIGN(const checkpoint::Manifest manifest,
                checkpoint::save_model(directory / checkpoint::kModelFileName, content));
  return manifest.weights_hash;
}

Result<TrainedModel> load_trained(const std::filesystem::path& path,
                                  std::span<const std::string> overrides) {
  TANDEM_ASSIGN(const checkpoint::ModelFile file, checkpoint::load_model(path));
  TANDEM_ASSIGN(const std::string job_text, field(file, kJob));
  TANDEM_ASSIGN(const std::string spec_text, field(file, kSpec));
  TANDEM_ASSIGN(const std::string encoding_text, field(file, kEncoding));
  TrainedModel trained;
  TANDEM_ASSIGN(trained.job, job::parse(job_text, path.string() + ":" + kJob, overrides));
  TANDEM_ASSIGN(trained.spec, data::spec_from_json(spec_text));
  TANDEM_ASSIGN(trained.encoding, data::encoding_from_json(encoding_text));
  TANDEM_ASSIGN(arch::Blueprint blueprint, blueprint_of(trained.job, trained.spec));
  TANDEM_ASSIGN(trained.model, model::Model::create(std::move(blueprint), trained.job.train.loss,
                                                    trained.job.train.threads));
  const bool sparse = trained.job.has_sparse_tables();
  if (sparse) trained.model->initialise(trained.job.train.seed);
  for (const arch::Slot& slot : trained.model->blueprint().slots) {
    if (sparse && is_table(trained.model->blueprint(), slot)) {
      TANDEM_TRY(fill_table(file, slot, values_of(*trained.model, slot)));
      continue;
    }
    const checkpoint::Tensor* tensor = file.find(slot.name);
    if (tensor == nullptr || tensor->shape != slot.shape) {
      return Error(Code::kCorrupt,
                   fmt::format("{}: tensor `{}` of shape {} is missing", path.string(), slot.name,
                               checkpoint::to_string(slot.shape)));
    }
    TANDEM_TRY(check_finite(file, *tensor));
    std::copy(tensor->values.begin(), tensor->values.end(),
              values_of(*trained.model, slot).begin());
  }
  trained.model->parameters_changed();
  return trained;
}

Result<std::vector<std::string>> start_from(const checkpoint::ModelFile& file,
                                            model::Model& model) {
  std::vector<std::string> missing, misshapen, unused;
  std::vector<std::string> taken;
  for (const arch::Slot& slot : model.blueprint().slots) {
    const checkpoint::Tensor* tensor = file.find(slot.name);
    if (tensor == nullptr) {
      missing.push_back(slot.name);
    } else if (tensor->shape != slot.shape) {
      misshapen.push_back(fmt::format("{} ({} there, {} here)", slot.name,
                                      checkpoint::to_string(tensor->shape),
                                      checkpoint::to_string(slot.shape)));
    } else {
      TANDEM_TRY(check_finite(file, *tensor));
      std::copy(tensor->values.begin(), tensor->values.end(), values_of(model, slot).begin());
      taken.push_back(slot.name);
    }
  }
  for (const checkpoint::Tensor& tensor : file.tensors) {
    const auto& slots = model.blueprint().slots;
    if (std::none_of(slots.begin(), slots.end(),
                     [&](const auto& slot) { return slot.name == tensor.name; })) {
      unused.push_back(tensor.name);
    }
  }
  model.parameters_changed();
  if (taken.empty()) {
    const std::string has = file.tensors.empty() ? "none" : file.tensors.front().name;
    return Error(
        Code::kInvalidArgument,
        fmt::format("no tensor of {} matches this model by name and shape; {}", file.path.string(),
                    misshapen.empty() ? fmt::format("it has `{}`, the model wants `{}`", has,
                                                    model.blueprint().slots.front().name)
                                      : "other shapes: " + misshapen.front()));
  }
  std::vector<std::string> lines = {fmt::format("{} of {} tensors taken from {}: {}", taken.size(),
                                                model.blueprint().slots.size(), file.path.string(),
                                                fmt::join(taken, ", "))};
  for (const std::string& name : missing)
    lines.push_back(fmt::format("not in the file, initialised anew: {}", name));
  for (const std::string& name : misshapen)
    lines.push_back(fmt::format("another shape, initialised anew: {}", name));
  for (const std::string& name : unused)
    lines.push_back(fmt::format("in the file but not in the model: {}", name));
  return lines;
}

}  // namespace tandem::train
