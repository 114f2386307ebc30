// Limits on what data may look like, so that a damaged or hostile file is an error and not an
// exhausted machine. The messages that name them come from here, too.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem::data {

inline constexpr std::int64_t kMostSamples = std::int64_t{1}
                                             << 31;  // Sample numbers are 32 bits wide.
inline constexpr std::int64_t kMostClasses = 65536;
inline constexpr std::int64_t kMostAutoClasses = 100;  // More distinct whole numbers are values.
inline constexpr std::int64_t kMostCategories = 1000;  // Of one column of a table.
inline constexpr std::int64_t kMostColumns = 65536;
inline constexpr std::int64_t kMostRows = 1 << 24;  // Of a table; a float holds their numbers.
inline constexpr std::int64_t kMostFeatures = std::int64_t{1} << 31;  // Floats in memory: 8 GiB.
inline constexpr std::int64_t kMostVocabulary = 4096;
inline constexpr std::int64_t kMostContext = 65536;  // Characters in a sample of text.
inline constexpr std::int64_t kMostInflatedBytes = std::int64_t{1} << 33;

// Numbers beyond this would overflow a float as soon as they are normalised or squared a few times.
inline constexpr double kMostMagnitude = 1e18;
inline constexpr std::string_view kUsableRule =
    "numbers must be finite and at most 1e18 in magnitude";

constexpr bool is_usable(double number) {
  return number >= -kMostMagnitude && number <= kMostMagnitude;  // False for NaN.
}

}  // namespace tandem::data
