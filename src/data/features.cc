#include "data/features.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/simd.h"

namespace tandem::data {
namespace {

TANDEM_SIMD void normalise_bytes(const std::uint8_t* in, float* out, std::size_t count, float mean,
                                 float inverse_deviation) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = (static_cast<float>(in[i]) - mean) * inverse_deviation;
}

TANDEM_SIMD void normalise_floats(const float* in, float* out, std::size_t count, float mean,
                                  float inverse_deviation) {
  for (std::size_t i = 0; i < count; ++i) out[i] = (in[i] - mean) * inverse_deviation;
}

TANDEM_SIMD void normalise_columns(const float* in, float* out, std::size_t count,
                                   const float* mean, const float* inverse_deviation) {
  for (std::size_t i = 0; i < count; ++i) out[i] = (in[i] - mean[i]) * inverse_deviation[i];
}

TANDEM_SIMD void normalise_byte_columns(const std::uint8_t* in, float* out, std::size_t count,
                                        const float* mean, const float* inverse_deviation) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = (static_cast<float>(in[i]) - mean[i]) * inverse_deviation[i];
  }
}

struct ByteSums {
  std::uint32_t sum = 0;
  std::uint32_t squares = 0;
};

// REQUIRES: count * 255 * 255 fits 32 bits.
TANDEM_SIMD ByteSums sum_bytes(const std::uint8_t* in, std::size_t count) {
  ByteSums sums;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t value = in[i];
    sums.sum += value;
    sums.squares += value * value;
  }
  return sums;
}

// Sums of one group, from which its mean and deviation follow.
struct Moments {
  double sum = 0;
  double squares = 0;  // Around `center`, to keep digits where the mean is far from 0.
  double center = 0;
};

void add_bytes(const std::uint8_t* in, std::size_t count, Moments& moments) {
  constexpr std::size_t kPiece = 32768;
  for (std::size_t at = 0; at < count; at += kPiece) {
    const ByteSums sums = sum_bytes(in + at, std::min(kPiece, count - at));
    // Whole numbers below 2^53 in all: exact in any order.
    moments.sum += sums.sum;
    moments.squares += sums.squares;
  }
}

void add_floats(const float* in, std::size_t count, Moments& moments) {
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(in[i]) - moments.center;
    moments.sum += value;
    moments.squares += value * value;
  }
}

std::vector<Moments> sum_groups(const Features& features, std::span<const std::uint32_t> rows,
                                std::int64_t groups) {
  std::vector<Moments> moments(static_cast<std::size_t>(groups));
  const auto piece = static_cast<std::size_t>(features.width / groups);
  if (!features.is_8_bit()) {
    for (std::size_t g = 0; g < moments.size(); ++g) {
      moments[g].center = static_cast<double>(features.floats_of(rows[0])[g * piece]);
    }
  }
  for (std::uint32_t row : rows) {
    for (std::size_t g = 0; g < moments.size(); ++g) {
      if (features.is_8_bit()) {
        add_bytes(features.bytes_of(row) + g * piece, piece, moments[g]);
      } else {
        add_floats(features.floats_of(row) + g * piece, piece, moments[g]);
      }
    }
  }
  return moments;
}

// Below these a deviation is rounding noise: dividing by it would blow the noise up.
constexpr double kLeastDeviation = 1e-18;
constexpr double kLeastRelativeDeviation = 1e-6;

template <typename T>
void transpose(const T* in, std::size_t pixels, std::size_t channels, T* out) {
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      out[channel * pixels + pixel] = in[pixel * channels + channel];
    }
  }
}

// Transposes every sample in place through one sample's worth of memory.
template <typename T>
void transpose_samples(T* samples, std::int64_t count, std::int64_t pixels, std::int64_t channels) {
  const auto width = static_cast<std::size_t>(pixels * channels);
  std::vector<T> sample(width);
  for (std::int64_t i = 0; i < count; ++i, samples += width) {
    transpose(samples, static_cast<std::size_t>(pixels), static_cast<std::size_t>(channels),
              sample.data());
    std::memcpy(samples, sample.data(), width * sizeof(T));
  }
}

}  // namespace

Result<Features> take_features(std::string&& file, const Array& array) {
  Features features;
  features.count = array.shape.front();
  features.width = features.count == 0 ? 0 : array.count() / features.count;
  if (array.element == Element::kU8) {
    features.offset = static_cast<std::size_t>(array.bytes.data() - file.data());
    features.bytes = std::move(file);
  } else {
    TANDEM_ASSIGN(features.floats, to_floats(array));
  }
  return features;
}

void put_channels_first(Features& features, std::int64_t pixels, std::int64_t channels) {
  TANDEM_CHECK(pixels * channels == features.width);
  if (features.is_8_bit()) {
    transpose_samples(features.bytes.data() + features.offset, features.count, pixels, channels);
  } else {
    transpose_samples(features.floats.data(), features.count, pixels, channels);
  }
}

Normalisation learn_normalisation(const Features& features, std::span<const std::uint32_t> rows,
                                  std::int64_t groups) {
  TANDEM_CHECK(!rows.empty() && groups > 0 && features.width % groups == 0);
  const double count =
      static_cast<double>(rows.size()) * static_cast<double>(features.width / groups);
  Normalisation normalisation;
  for (const Moments& moments : sum_groups(features, rows, groups)) {
    const double shift = moments.sum / count;
    const double mean = moments.center + shift;
    const double deviation = std::sqrt(std::max(0.0, moments.squares / count - shift * shift));
    const bool constant =
        deviation < kLeastDeviation || deviation < kLeastRelativeDeviation * std::abs(mean);
    normalisation.mean.push_back(static_cast<float>(mean));
    normalisation.inverse_deviation.push_back(constant ? 1.0F
                                                       : static_cast<float>(1.0 / deviation));
  }
  return normalisation;
}

Normalisation no_normalisation(std::int64_t groups) {
  const auto count = static_cast<std::size_t>(groups);
  return {std::vector<float>(count, 0.0F), std::vector<float>(count, 1.0F)};
}

void prefetch_sample(const Features& features, std::int64_t sample) {
  constexpr std::size_t kLine = 64;
  const bool bytes = features.is_8_bit();
  const auto* const first = bytes ? reinterpret_cast<const char*>(features.bytes_of(sample))
                                  : reinterpret_cast<const char*>(features.floats_of(sample));
  const std::size_t size = static_cast<std::size_t>(features.width) * (bytes ? 1 : sizeof(float));
  for (std::size_t at = 0; at < size; at += kLine) __builtin_prefetch(first + at);
  if (size > 0) __builtin_prefetch(first + size - 1);
}

void write_sample(const Features& features, const Normalisation& normalisation, std::int64_t sample,
                  float* out) {
  const auto width = static_cast<std::size_t>(features.width);
  const std::size_t groups = normalisation.mean.size();
  const float* const mean = normalisation.mean.data();
  const float* const inverse = normalisation.inverse_deviation.data();
  const std::size_t piece = width / groups;
  if (features.is_8_bit()) {
    const std::uint8_t* const in = features.bytes_of(sample);
    if (piece == 1) return normalise_byte_columns(in, out, width, mean, inverse);
    for (std::size_t g = 0; g < groups; ++g) {
      normalise_bytes(in + g * piece, out + g * piece, piece, mean[g], inverse[g]);
    }
  } else {
    const float* const in = features.floats_of(sample);
    if (piece == 1) return normalise_columns(in, out, width, mean, inverse);
    for (std::size_t g = 0; g < groups; ++g) {
      normalise_floats(in + g * piece, out + g * piece, piece, mean[g], inverse[g]);
    }
  }
}

}  // namespace tandem::data
