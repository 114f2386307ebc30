#include "checkpoint/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/atomic_file.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace tandem::checkpoint {
namespace {

namespace fs = std::filesystem;

Result<fs::path> locate(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const fs::path inside = path / kModelFileName;
    if (fs::exists(inside, error)) return inside;
    if (error) return system_error(fmt::format("look into {}", path.string()), error.value());
    return Error(Code::kNotFound,
                 fmt::format("{} holds no {}; is it the directory of a run that has finished?",
                             path.string(), kModelFileName));
  }
  if (fs::exists(path, error)) return path;
  return Error(
      Code::kNotFound,
      fmt::format("{} does not exist; name a .safetensors file or a run directory", path.string()));
}

// Nothing, when there is no manifest.
Result<std::optional<Manifest>> read_manifest(const fs::path& model_path) {
  const fs::path path = manifest_path(model_path);
  const Result<std::string> json = read_file(path, kMostManifestBytes);
  if (!json.ok()) {
    if (json.error().code() == Code::kNotFound) return std::optional<Manifest>();
    return json.error();
  }
  TANDEM_ASSIGN(Manifest manifest, parse_manifest(*json, path.string()));
  return std::optional<Manifest>(std::move(manifest));
}

using Wanted = std::function<bool(std::string_view)>;

Status read_tensors(std::span<const std::byte> bytes, const Wanted& wanted, ModelFile& model) {
  TANDEM_ASSIGN(Safetensors file, parse_safetensors(bytes, model.path.string()));
  model.metadata = std::move(file.metadata);
  for (const TensorEntry& entry : file.tensors) {
    if (wanted && !wanted(entry.name)) continue;
    if (entry.dtype == Dtype::kI64 && entry.name.ends_with(kKeysSuffix)) {
      TANDEM_ASSIGN(std::vector<std::int64_t> values, read_integers(file, entry));
      model.keys.push_back({entry.name, entry.shape, std::move(values)});
      continue;
    }
    if (!is_float(entry.dtype)) {
      model.skipped.push_back(fmt::format("{} ({})", entry.name, to_string(entry.dtype)));
      continue;
    }
    TANDEM_ASSIGN(std::vector<float> values, read_floats(file, entry));
    model.tensors.push_back({entry.name, entry.shape, std::move(values)});
  }
  return {};
}

Result<ModelFile> load(const fs::path& path, const Wanted& wanted) {
  ModelFile model;
  TANDEM_ASSIGN(model.path, locate(path));
  TANDEM_ASSIGN(model.manifest, read_manifest(model.path));
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(model.path));
  if (model.manifest) {
    const Status whole = check_manifest(*model.manifest, file.bytes(), model.path.string());
    if (!whole.ok()) {
      return Error(whole.error().code(),
                   whole.error().message() +
                       "; restore the file from a copy, or delete the manifest to load it "
                       "unchecked");
    }
  }
  TANDEM_TRY(read_tensors(file.bytes(), wanted, model));
  return model;
}

}  // namespace

const Tensor* ModelFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [name](const Tensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

const IntegerTensor* ModelFile::find_keys(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(), [name](const IntegerTensor& tensor) {
    return tensor.name == name;
  });
  return found == keys.end() ? nullptr : &*found;
}

Result<ModelFile> load_model(const fs::path& path, const Wanted& wanted) {
  try {
    return load(path, wanted);
  } catch (const std::bad_alloc&) {
    return Error(Code::kOutOfSpace,
                 fmt::format("{}: the model does not fit into memory", path.string()));
  }
}

Result<Manifest> save_model(const fs::path& path, const ModelContent& content) {
  std::vector<TensorView> tensors = content.parameters;
  tensors.insert(tensors.end(), content.buffers.begin(), content.buffers.end());
  TANDEM_ASSIGN(const std::string prefix, safetensors_prefix(tensors, content.metadata));
  std::uint64_t bytes = prefix.size();
  for (const TensorView& tensor : tensors) bytes += as_bytes(tensor).size();
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path, bytes));
  const Sink sink = [&](std::span<const std::byte> piece) { return file.append(piece); };
  TANDEM_ASSIGN(Manifest manifest, make_manifest(path.filename().string(), prefix, tensors, sink));
  TANDEM_TRY(file.commit());
  TANDEM_TRY(write_file_atomic(manifest_path(path), to_json(manifest)));
  return manifest;
}

Status check_tables(const ModelFile& model) {
  // Others may use such names for something else.
  const bool ours = std::any_of(model.metadata.begin(), model.metadata.end(),
                                [](const auto& each) { return each.first.starts_with("tandem."); });
  for (const IntegerTensor& keys : model.keys) {
    const std::string table = keys.name.substr(0, keys.name.size() - kKeysSuffix.size());
    const Tensor* const rows = model.find(table + std::string(kRowsSuffix));
    if (rows == nullptr && !ours) continue;
    const auto bad = [&](const std::string& what) {
      return Error(Code::kCorrupt, fmt::format("{}: table `{}`: {}; restore the file from a copy",
                                               model.path.string(), table, what));
    };
    if (rows == nullptr) return bad("its keys are there, but not its rows");
    if (keys.shape.size() != 1 || rows->shape.size() != 2 || rows->shape[0] != keys.shape[0]) {
      return bad(fmt::format("keys of shape {} do not fit rows of shape {}", to_string(keys.shape),
                             to_string(rows->shape)));
    }
    std::int64_t last = -1;
    for (const std::int64_t key : keys.values) {
      if (key <= last)
        return bad(fmt::format("its keys do not ascend: {} comes after {}", key, last));
      last = key;
    }
  }
  return {};
}

Result<Manifest> verify_model(const fs::path& path) {
  TANDEM_ASSIGN(const fs::path found, locate(path));
  TANDEM_ASSIGN(std::optional<Manifest> manifest, read_manifest(found));
  if (!manifest) {
    return Error(Code::kNotFound,
                 fmt::format("{}: it cannot be verified, because its manifest {} is missing",
                             found.string(), manifest_path(found).filename().string()));
  }
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(found));
  TANDEM_TRY(check_manifest(*manifest, file.bytes(), found.string()));
  return *std::move(manifest);
}

}  // namespace tandem::checkpoint
