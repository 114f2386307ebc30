#include "data/characters.h"

#include <gtest/gtest.h>

#include "data/testing.h"
#include "data/utf8.h"

namespace tandem::data {
namespace {

TEST(Utf8, DecodesEveryLength) {
  EXPECT_EQ(decode_utf8("a").value, U'a');
  EXPECT_EQ(decode_utf8("é").value, U'é');
  EXPECT_EQ(decode_utf8("€").value, U'€');
  EXPECT_EQ(decode_utf8("😀").value, U'😀');
  EXPECT_EQ(decode_utf8("😀").bytes, 4);
}

TEST(Utf8, RefusesWhatIsNot) {
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x82"}) {
    EXPECT_EQ(decode_utf8(text).bytes, 0) << text;
    EXPECT_EQ(first_not_utf8(std::string("ok é ") + text), 6U);
  }
}

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
