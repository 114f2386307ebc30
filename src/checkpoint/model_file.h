// A trained model on disk: model.safetensors and the manifest beside it. Saving is atomic for each
// file, the manifest last; loading checks the manifest when there is one. Formats:
// docs/model-files.md. No state; callers may use it from any thread, on different paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor.h"

namespace tandem::checkpoint {

// The model's name in a run directory.
inline constexpr std::string_view kModelFileName = "model.safetensors";

// A table of which not all rows are there, "user.weight", is two tensors: "user.weight.keys", I64
// and ascending, and "user.weight.rows", a row for each of these.
inline constexpr std::string_view kKeysSuffix = ".keys", kRowsSuffix = ".rows";

struct ModelFile {
  std::filesystem::path path;
  Metadata metadata;
  std::vector<Tensor> tensors;      // In the order of their data.
  std::vector<IntegerTensor> keys;  // Of tables; the same.
  std::vector<std::string>
      skipped;  // Tensors that hold no floats: "bn1.num_batches_tracked (I64)".
  std::optional<Manifest> manifest;  // Absent for files that something else wrote.

  // Null when there is none. Takes time in the number of tensors.
  const Tensor* find(std::string_view name) const;
  const IntegerTensor* find_keys(std::string_view name) const;
};

// Reads a .safetensors file, or the one in a run directory. When a manifest stands beside it, a
// file that does not match is refused with kCorrupt.
// Of a file with much that the caller does not want, only the tensors for which `wanted` is true.
Result<ModelFile> load_model(const std::filesystem::path& path,
                             const std::function<bool(std::string_view name)>& wanted = {});

// What is to be saved, in slot order.
struct ModelContent {
  std::vector<TensorView> parameters;
  std::vector<TensorView> buffers;
  Metadata metadata;
};

// Writes the model file (parameters, then buffers) and then its manifest, which is returned. On
// failure an older model at `path` is as it was, or replaced as a whole.
Result<Manifest> save_model(const std::filesystem::path& path, const ModelContent& content);

// Checks that the tables of which the file has some rows make sense: a row for each key, and keys
// that ascend. kCorrupt names the one that does not. For files whose manifest is missing.
Status check_tables(const ModelFile& model);

// Checks the file against its manifest, tensor by tensor. kNotFound when one of the two is missing;
// kCorrupt names the tensor that differs.
Result<Manifest> verify_model(const std::filesystem::path& path);

}  // namespace tandem::checkpoint
