// Small things that messages to people need: the nearest known word, numbers with units.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// The candidate nearest to `word` by edit distance, whatever the case of letters, or "" when none
// is near enough to be meant.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// The text with `?` for every control character but those `kept`, for what was read from a file: a
// terminal must not obey it, and a line or a field must not end in the middle.
std::string without_controls(std::string_view text, std::string_view kept = "");

// 1234567 -> "1,234,567".
std::string with_commas(std::int64_t number);

// 3435973836 -> "3.2 GiB".
std::string human_bytes(std::uint64_t bytes);

// 75.3 -> "1 m 15 s"; 0.0123 -> "12 ms". "unknown" for what is not finite. REQUIRES: seconds >= 0.
std::string human_seconds(double seconds);

}  // namespace tandem
