#include "checkpoint/dtype.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace tandem::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "model files are little-endian and are copied as they are");

struct DtypeInfo {
  Dtype dtype;
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enum.
constexpr std::array kDtypes = {
    DtypeInfo{Dtype::kF64, "F64", 8},        DtypeInfo{Dtype::kF32, "F32", 4},
    DtypeInfo{Dtype::kF16, "F16", 2},        DtypeInfo{Dtype::kBf16, "BF16", 2},
    DtypeInfo{Dtype::kI64, "I64", 8},        DtypeInfo{Dtype::kI32, "I32", 4},
    DtypeInfo{Dtype::kI16, "I16", 2},        DtypeInfo{Dtype::kI8, "I8", 1},
    DtypeInfo{Dtype::kU64, "U64", 8},        DtypeInfo{Dtype::kU32, "U32", 4},
    DtypeInfo{Dtype::kU16, "U16", 2},        DtypeInfo{Dtype::kU8, "U8", 1},
    DtypeInfo{Dtype::kBool, "BOOL", 1},      DtypeInfo{Dtype::kF8E4m3, "F8_E4M3", 1},
    DtypeInfo{Dtype::kF8E5m2, "F8_E5M2", 1},
};

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t fraction = half & 0x3ffU;
  if (exponent == 0) {  // Zero or subnormal: fraction * 2^-24, exact in float.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  // 31 marks infinity and NaN; else the exponent's bias changes from 15 to 127.
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace

std::string_view to_string(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const DtypeInfo& info : kDtypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

std::size_t element_bytes(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].bytes;
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

void decode(Dtype dtype, std::span<const std::byte> bytes, std::span<float> values) {
  TANDEM_CHECK(is_float(dtype) && bytes.size() == values.size() * element_bytes(dtype));
  if (values.empty()) return;
  const std::byte* from = bytes.data();
  if (dtype == Dtype::kF32) {
    std::memcpy(values.data(), from, bytes.size());
  } else if (dtype == Dtype::kF64) {
    for (float& value : values) value = static_cast<float>(load<double>(from)), from += 8;
  } else if (dtype == Dtype::kF16) {
    for (float& value : values) value = from_half(load<std::uint16_t>(from)), from += 2;
  } else {
    for (float& value : values) value = from_bfloat(load<std::uint16_t>(from)), from += 2;
  }
}

}  // namespace tandem::checkpoint
