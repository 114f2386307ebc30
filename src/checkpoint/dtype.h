// The element types that a safetensors file can name, and their conversion to float. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tandem::checkpoint {

enum class Dtype : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,  // Converted to float when read.
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4m3,
  kF8E5m2,  // Known by size only.
};

// The name in a file: "F32", "BF16", ...
std::string_view to_string(Dtype dtype);
std::optional<Dtype> dtype_named(std::string_view name);
std::size_t element_bytes(Dtype dtype);

// Whether decode() knows it: F64, F32, F16, BF16.
bool is_float(Dtype dtype);

// Little-endian elements to floats; F64 is rounded to nearest. The bytes need no alignment.
// REQUIRES: is_float(dtype), bytes.size() == values.size() * element_bytes(dtype).
void decode(Dtype dtype, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace tandem::checkpoint
