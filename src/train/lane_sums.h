// Losses and hits of lanes as floats that ride along with the gradients: each lane has places of
// its own in the vector, zero in every other lane's, so that adding the lanes changes no bit of
// them. Pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "model/model.h"

namespace tandem::train {

inline constexpr std::size_t kLaneSumFloats = 12;

// Writes one lane's sums into its places. REQUIRES: to.size() == kLaneSumFloats.
void encode_sums(const model::LossSums& sums, std::span<float> to);
model::LossSums decode_sums(std::span<const float> from);

}  // namespace tandem::train
