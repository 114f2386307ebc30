#include "data/characters.h"

#include <gtest/gtest.h>

#include "data/testing.h"

namespace tandem::data {
namespace {

TEST(Characters, LearnsSortedDistinctCharacters) {
  const std::string_view texts[] = {"bébé", "ça 😀"};
  EXPECT_EQ(*learn_vocabulary(texts), (std::vector<std::string>{" ", "a", "b", "ç", "é", "😀"}));
}

TEST(Characters, EncodesAndNamesTheUnknown) {
  const std::vector<std::string> vocabulary = {"a", "b", "é"};
  EXPECT_EQ(*encode_text("béa", vocabulary), (std::vector<std::uint16_t>{1, 2, 0}));
  EXPECT_TRUE(
      fails(encode_text("bé€", vocabulary), Code::kInvalidArgument, "`€` (U+20AC) at byte 3"));
  EXPECT_TRUE(
      fails(encode_text("ab\xff", vocabulary), Code::kInvalidArgument, "not UTF-8 at byte 2"));
}

TEST(Characters, RefusesTooManyCharacters) {
  std::string text;
  for (char32_t value = 0x4e00; value < 0x4e00 + 4097; ++value) {
    text += static_cast<char>(0xe0 | (value >> 12));
    text += static_cast<char>(0x80 | ((value >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (value & 0x3f));
  }
  const std::string_view texts[] = {text};
  EXPECT_TRUE(
      fails(learn_vocabulary(texts), Code::kInvalidArgument, "more than 4096 distinct characters"));
}

}  // namespace
}  // namespace tandem::data
