// Reading safetensors: named arrays behind a JSON header. Nothing in the file is trusted: sizes are
// checked against the file before they are used, tensors must tile the data without holes or
// overlaps, and nothing is allocated that the file's own bytes do not pay for. Byte layout:
// docs/model-files.md. Pure functions on bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/dtype.h"
#include "checkpoint/tensor.h"

namespace tandem::checkpoint {

// The longest header that is read: as in the reference implementation.
inline constexpr std::size_t kMostHeaderBytes = 100'000'000;

// One line of the header.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::uint64_t begin = 0;  // Bytes from the start of the data.
  std::uint64_t end = 0;
};

// A file whose layout has been checked. Refers to the bytes it was parsed from.
struct Safetensors {
  Metadata metadata;
  std::vector<TensorEntry> tensors;  // In the order of their data.
  std::span<const std::byte> data;

  // REQUIRES: the entry is one of `tensors`.
  std::span<const std::byte> bytes(const TensorEntry& entry) const {
    return data.subspan(entry.begin, entry.end - entry.begin);
  }
};

// Reads and checks everything but the numbers. `file` names the source in messages. kCorrupt says
// what is wrong, in which tensor; kVersionMismatch for an element type that is not known.
Result<Safetensors> parse_safetensors(std::span<const std::byte> bytes, std::string_view file);

// The tensor's whole numbers. kInvalidArgument when its type is not I64. REQUIRES: as below.
Result<std::vector<std::int64_t>> read_integers(const Safetensors& file, const TensorEntry& entry);

// The tensor's numbers as floats. kInvalidArgument when its type is not F64, F32, F16 or BF16.
// REQUIRES: the entry is one of file.tensors.
Result<std::vector<float>> read_floats(const Safetensors& file, const TensorEntry& entry);

}  // namespace tandem::checkpoint
