// Text as numbers: a vocabulary of distinct characters (UTF-8 code points) and the texts encoded by
// it. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::data {

// The distinct characters of all the texts, by code point; each is a string of one character.
// kInvalidArgument with the byte's offset when a text is not UTF-8, or when there are more than
// kMostVocabulary characters.
Result<std::vector<std::string>> learn_vocabulary(std::span<const std::string_view> texts);

// The place in `vocabulary` of every character of the text. kInvalidArgument with the byte's offset
// when the text is not UTF-8 or has a character that the vocabulary has not. REQUIRES: vocabulary
// is sorted as learn_vocabulary() sorts it.
Result<std::vector<std::uint16_t>> encode_text(std::string_view text,
                                               std::span<const std::string> vocabulary);

}  // namespace tandem::data
