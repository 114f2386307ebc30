#include "train/lane_sums.h"

#include <array>
#include <bit>

#include "base/check.h"

namespace tandem::train {
namespace {

constexpr std::size_t kPieces = 4;  // Of 16 bits each, which a float holds exactly.

void encode(std::uint64_t bits, std::span<float> to) {
  for (std::size_t i = 0; i < kPieces; ++i) to[i] = static_cast<float>(bits >> (16 * i) & 0xffffU);
}

std::uint64_t decode(std::span<const float> from) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kPieces; ++i) bits |= static_cast<std::uint64_t>(from[i]) << (16 * i);
  return bits;
}

}  // namespace

void encode_sums(const model::LossSums& sums, std::span<float> to) {
  TANDEM_CHECK(to.size() == kLaneSumFloats);
  encode(std::bit_cast<std::uint64_t>(sums.loss), to.first(kPieces));
  encode(static_cast<std::uint64_t>(sums.correct), to.subspan(kPieces, kPieces));
  encode(static_cast<std::uint64_t>(sums.predictions), to.last(kPieces));
}

model::LossSums decode_sums(std::span<const float> from) {
  TANDEM_CHECK(from.size() == kLaneSumFloats);
  model::LossSums sums;
  sums.loss = std::bit_cast<double>(decode(from.first(kPieces)));
  sums.correct = static_cast<std::int64_t>(decode(from.subspan(kPieces, kPieces)));
  sums.predictions = static_cast<std::int64_t>(decode(from.last(kPieces)));
  return sums;
}

}  // namespace tandem::train
