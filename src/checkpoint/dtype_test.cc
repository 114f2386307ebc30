#include "checkpoint/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tandem::checkpoint {
namespace {

template <typename T>
std::vector<float> decode_all(Dtype dtype, std::vector<T> raw) {
  std::vector<float> values(raw.size());
  decode(dtype, std::as_bytes(std::span(raw)), values);
  return values;
}

TEST(Dtype, HasANameForEveryType) {
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(Dtype::kF8E5m2); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_named(to_string(dtype)), dtype);
  }
  EXPECT_EQ(dtype_named("F128"), std::nullopt);
  EXPECT_EQ(element_bytes(Dtype::kBf16), 2U);
  EXPECT_FALSE(is_float(Dtype::kI64));
}

TEST(Decode, ReadsHalves) {
  const std::vector<std::uint16_t> raw = {0x0000, 0x3c00, 0xc000, 0x7bff, 0x0400,
                                          0x0001, 0x03ff, 0x7c00, 0xfc00, 0x3555};
  const std::vector<float> expected = {0,
                                       1,
                                       -2,
                                       65504,
                                       0x1p-14F,
                                       0x1p-24F,
                                       1023 * 0x1p-24F,
                                       std::numeric_limits<float>::infinity(),
                                       -std::numeric_limits<float>::infinity(),
                                       0x1.554p-2F};
  EXPECT_EQ(decode_all(Dtype::kF16, raw), expected);
  EXPECT_TRUE(std::signbit(decode_all<std::uint16_t>(Dtype::kF16, {0x8000})[0]));
  EXPECT_TRUE(std::isnan(decode_all<std::uint16_t>(Dtype::kF16, {0x7e01})[0]));
}

TEST(Decode, ReadsBfloats) {
  EXPECT_EQ(decode_all<std::uint16_t>(Dtype::kBf16, {0x3f80, 0xc040, 0x0001}),
            (std::vector<float>{1, -3, std::bit_cast<float>(0x00010000U)}));
}

TEST(Decode, ReadsDoublesAndFloats) {
  EXPECT_EQ(decode_all<double>(Dtype::kF64, {0.1, -1e300, 3}),
            (std::vector<float>{0.1F, -std::numeric_limits<float>::infinity(), 3}));
  EXPECT_EQ(decode_all<float>(Dtype::kF32, {0.1F, -5}), (std::vector<float>{0.1F, -5}));
}

TEST(Decode, NeedsNoAlignment) {
  const double value = 2.5;
  std::byte raw[9];
  std::memcpy(raw + 1, &value, sizeof value);
  float decoded = 0;
  decode(Dtype::kF64, std::span(raw).subspan(1), std::span(&decoded, 1));
  EXPECT_EQ(decoded, 2.5F);
}

}  // namespace
}  // namespace tandem::checkpoint
