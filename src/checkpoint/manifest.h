// The manifest beside a model file: checksums of the whole file and of every tensor, so that damage
// is noticed and named. model.safetensors has model.manifest.json. Format: docs/model-files.md.
// Pure functions, except that they hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor.h"

namespace tandem::checkpoint {

inline constexpr std::int64_t kManifestVersion = 1;
// The longest manifest that is read; enough for some 40,000 tensors.
inline constexpr std::size_t kMostManifestBytes = std::size_t{8} << 20;

struct TensorChecksum {
  std::string name;
  Shape shape;
  std::string hash;  // XXH3-128 of its bytes, as are the others.
};

struct Manifest {
  std::string file;         // The model file's name when it was written.
  std::uint64_t bytes = 0;  // Its size.
  std::string file_hash;
  std::string weights_hash;  // Of the data part: see weights_hash().
  std::vector<TensorChecksum> tensors;
};

// XXH3-128 of all parameters, then all buffers, in slot order: 32 hex digits. The same in a run's
// report.
std::string weights_hash(std::span<const float> parameters, std::span<const float> buffers);

// model.safetensors -> model.manifest.json
std::filesystem::path manifest_path(const std::filesystem::path& model_path);

// Takes the next bytes of a file. An Error ends it.
using Sink = std::function<Status(std::span<const std::byte>)>;

// The manifest of a file that is made of `prefix` (safetensors_prefix()) and the tensors behind it.
// Gives the file's bytes to `sink` on the way, in order, while the processor's cache still has what
// was hashed of them.
Result<Manifest> make_manifest(std::string file, std::string_view prefix,
                               std::span<const TensorView> tensors, const Sink& sink);

// REQUIRES: names are UTF-8, as safetensors_prefix() has checked.
std::string to_json(const Manifest& manifest);

// `file` names the source in messages. kCorrupt for anything that is not a manifest;
// kVersionMismatch for a newer one.
Result<Manifest> parse_manifest(std::string_view json, std::string_view file);

// Compares a model file's bytes with its manifest. kCorrupt says how they differ, and in which
// tensor.
Status check_manifest(const Manifest& manifest, std::span<const std::byte> bytes,
                      std::string_view file);

}  // namespace tandem::checkpoint
