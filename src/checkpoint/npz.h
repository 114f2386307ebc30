// Writing npz, numpy's container: a zip archive of one npy array for each tensor, stored without
// compression. The numbers go from where they lie to the file. The bytes depend on the content
// only, not on the time. Byte layout: docs/model-files.md. Pure apart from the file.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/dtype.h"
#include "checkpoint/tensor.h"

namespace tandem::checkpoint {

// The bytes in front of a tensor's numbers in an npy file (version 1.0), a multiple of 64.
// `dtype` is kF32 or kI64.
std::string npy_prefix(const Shape& shape, Dtype dtype = Dtype::kF32);

// Writes the archive atomically. kInvalidArgument when a name repeats or could not be a file's
// name, a shape does not fit its values, or the archive would reach 4 GiB or 65,535 entries, beyond
// which zip needs another layout.
Status write_npz(const std::filesystem::path& path, std::span<const TensorView> tensors);

}  // namespace tandem::checkpoint
