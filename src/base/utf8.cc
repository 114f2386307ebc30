#include "base/utf8.h"

namespace tandem {
namespace {

struct Lead {
  int bytes;
  char32_t bits;
  char32_t least;  // Smaller values have a shorter form.
};

Lead lead_of(unsigned char first) {
  if (first < 0x80) return {1, first, 0};
  if (first >= 0xc2 && first < 0xe0) return {2, first & 0x1fU, 0x80};
  if (first >= 0xe0 && first < 0xf0) return {3, first & 0x0fU, 0x800};
  if (first >= 0xf0 && first < 0xf5) return {4, first & 0x07U, 0x10000};
  return {0, 0, 0};
}

}  // namespace

CodePoint decode_utf8(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text.front()));
  if (lead.bytes == 0 || text.size() < static_cast<std::size_t>(lead.bytes)) return {};
  char32_t value = lead.bits;
  for (int i = 1; i < lead.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    if ((byte & 0xc0U) != 0x80U) return {};
    value = (value << 6) | (byte & 0x3fU);
  }
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (value < lead.least || value >= kCodePoints || surrogate) return {};
  return {value, lead.bytes};
}

std::size_t first_not_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const CodePoint point = decode_utf8(text.substr(offset));
    if (point.bytes == 0) return offset;
    offset += static_cast<std::size_t>(point.bytes);
  }
  return offset;
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace tandem
