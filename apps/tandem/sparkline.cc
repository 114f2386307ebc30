#include "sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace tandem::cli {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kAscii = {"_", ".", "-", "~", "=", "+", "*", "#"};

// The means of `width` equal stretches.
std::vector<double> resample(const std::vector<double>& values, std::size_t width) {
  if (values.size() <= width) return values;
  std::vector<double> result(width);
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t begin = i * values.size() / width;
    const std::size_t end = std::max(begin + 1, (i + 1) * values.size() / width);
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += values[j];
    result[i] = sum / static_cast<double>(end - begin);
  }
  return result;
}

}  // namespace

std::string sparkline(std::span<const double> values, std::size_t width, Charset charset) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  if (finite.empty() || width == 0) return {};
  finite = resample(finite, width);
  const auto [lowest, highest] = std::ranges::minmax(finite);
  const auto& blocks = charset == Charset::kUtf8 ? kBlocks : kAscii;
  std::string line;
  for (const double value : finite) {
    const double height = highest > lowest ? (value - lowest) / (highest - lowest) : 0;
    const auto index =
        static_cast<std::size_t>(std::lround(height * static_cast<double>(blocks.size() - 1)));
    line += blocks[std::min(index, blocks.size() - 1)];
  }
  return line;
}

void Curve::add(double value) {
  sum_ += value;
  if (++in_sum_ < values_a_point_) return;
  points_.push_back(sum_ / static_cast<double>(in_sum_));
  sum_ = 0;
  in_sum_ = 0;
  if (points_.size() < kMostPoints) return;
  for (std::size_t i = 0; i < kMostPoints / 2; ++i)
    points_[i] = (points_[2 * i] + points_[2 * i + 1]) / 2;
  points_.resize(kMostPoints / 2);
  values_a_point_ *= 2;
}

std::vector<double> Curve::values() const {
  std::vector<double> result = points_;
  if (in_sum_ > 0) result.push_back(sum_ / static_cast<double>(in_sum_));
  return result;
}

}  // namespace tandem::cli
