// The inputs of many samples as they were read, before normalisation: bytes for 8-bit images,
// floats for everything else. Immutable once shared; the functions here are pure. The inner loops
// of gathering are in features.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/encoding.h"

namespace tandem::data {

struct Features {
  std::int64_t count = 0;     // Samples.
  std::int64_t width = 0;     // Numbers a sample.
  std::string bytes;          // 8-bit: the file they came from, so that they need not be copied …
  std::size_t offset = 0;     // … and where in it the first sample starts.
  std::vector<float> floats;  // Others. Empty when 8-bit.

  bool is_8_bit() const { return floats.empty(); }
  const std::uint8_t* bytes_of(std::int64_t sample) const {
    return reinterpret_cast<const std::uint8_t*>(bytes.data()) + offset +
           static_cast<std::size_t>(sample * width);
  }
  const float* floats_of(std::int64_t sample) const { return floats.data() + sample * width; }
};

// Takes over an array of samples that looks into `file`. u8 stays as it is; others become floats.
Result<Features> take_features(std::string&& file, const Array& array);

// Channels-last images become channels-first ones.
void put_channels_first(Features& features, std::int64_t pixels, std::int64_t channels);

// Mean and inverse deviation of each of `groups` equal pieces of a sample, over these samples.
// REQUIRES: groups divides features.width; rows is not empty.
Normalisation learn_normalisation(const Features& features, std::span<const std::uint32_t> rows,
                                  std::int64_t groups);

// The Normalisation that changes nothing.
Normalisation no_normalisation(std::int64_t groups);

// Asks the memory for a sample that write_sample() will read soon.
void prefetch_sample(const Features& features, std::int64_t sample);

// Writes one sample, normalised, to out[0 … width).
void write_sample(const Features& features, const Normalisation& normalisation, std::int64_t sample,
                  float* out);

}  // namespace tandem::data
