// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

inline constexpr std::int64_t kCodePoints = 0x110000;

struct CodePoint {
  char32_t value = 0;
  int bytes = 0;  // 0: the text is not UTF-8 here.
};

// The character at the start of `text`. REQUIRES: !text.empty().
CodePoint decode_utf8(std::string_view text);

// The offset of the first byte that is not UTF-8, or text.size().
std::size_t first_not_utf8(std::string_view text);

// The text without the byte order mark that some editors put before it.
std::string_view without_mark(std::string_view text);

}  // namespace tandem
