#include "data/characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "data/limits.h"

namespace tandem::data {
namespace {

constexpr std::int32_t kAbsent = -1;

Error not_utf8(std::size_t offset) {
  return Error(Code::kInvalidArgument,
               fmt::format("the text is not UTF-8 at byte {}; convert the file to UTF-8", offset));
}

// Calls visit(code point, its bytes, offset) for every character; stops at the first failure.
template <typename Visit>
Status for_each_character(std::string_view text, Visit visit) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const CodePoint point = decode_utf8(text.substr(offset));
    if (point.bytes == 0) return not_utf8(offset);
    const auto bytes = static_cast<std::size_t>(point.bytes);
    TANDEM_TRY(visit(point.value, text.substr(offset, bytes), offset));
    offset += bytes;
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> learn_vocabulary(std::span<const std::string_view> texts) {
  std::vector<bool> seen(static_cast<std::size_t>(kCodePoints));
  std::vector<std::string> found;
  for (std::string_view text : texts) {
    TANDEM_TRY(for_each_character(
        text, [&](char32_t value, std::string_view bytes, std::size_t) -> Status {
          if (seen[value]) return {};
          seen[value] = true;
          found.emplace_back(bytes);
          if (std::cmp_less_equal(found.size(), kMostVocabulary)) return {};
          return Error(
              Code::kInvalidArgument,
              fmt::format(
                  "the text has more than {} distinct characters, too many for a character model",
                  kMostVocabulary));
        }));
  }
  // The order of UTF-8 strings is the order of their code points.
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::vector<std::uint16_t>> encode_text(std::string_view text,
                                               std::span<const std::string> vocabulary) {
  TANDEM_CHECK(std::cmp_less_equal(vocabulary.size(), kMostVocabulary));
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(kCodePoints), kAbsent);
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    numbers[decode_utf8(vocabulary[i]).value] = static_cast<std::int32_t>(i);
  }
  std::vector<std::uint16_t> tokens;
  tokens.reserve(text.size());
  TANDEM_TRY(for_each_character(
      text, [&](char32_t value, std::string_view bytes, std::size_t offset) -> Status {
        if (numbers[value] == kAbsent) {
          return Error(
              Code::kInvalidArgument,
              fmt::format(
                  "the character `{}` (U+{:04X}) at byte {} did not occur in the training text",
                  bytes, static_cast<std::uint32_t>(value), offset));
        }
        tokens.push_back(static_cast<std::uint16_t>(numbers[value]));
        return {};
      }));
  return tokens;
}

}  // namespace tandem::data
