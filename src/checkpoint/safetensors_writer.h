// Writing safetensors: F32 and I64 tensors one after another in the order given, behind a JSON
// header. The numbers go from where they lie to the file; nothing is copied. Byte layout:
// docs/model-files.md.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor.h"

namespace tandem::checkpoint {

// All bytes before the data: the length and the header, padded so that the data begins at a
// multiple of 8. kInvalidArgument when names repeat or are not UTF-8, or a shape does not fit its
// values.
Result<std::string> safetensors_prefix(std::span<const TensorView> tensors,
                                       const Metadata& metadata);

// The file's bytes in order: the prefix, then each tensor's memory.
std::vector<std::string_view> safetensors_pieces(std::string_view prefix,
                                                 std::span<const TensorView> tensors);

// Writes the file atomically.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const Metadata& metadata);

}  // namespace tandem::checkpoint
