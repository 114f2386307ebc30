// A curve in one line of text. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::cli {

enum class Charset : std::uint8_t { kAscii, kUtf8 };

// The values as a row of at most `width` blocks, lowest to highest. Values that are not finite are
// left out.
std::string sparkline(std::span<const double> values, std::size_t width, Charset charset);

// A curve of any length in bounded memory: when it is full, neighbours are averaged.
class Curve {
 public:
  void add(double value);
  // In order; the last may be an average of fewer than the others.
  std::vector<double> values() const;

 private:
  static constexpr std::size_t kMostPoints = 1024;

  std::vector<double> points_;
  std::size_t values_a_point_ = 1;
  double sum_ = 0;  // Of the point that is being filled.
  std::size_t in_sum_ = 0;
};

}  // namespace tandem::cli
