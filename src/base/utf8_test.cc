#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem {
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

}  // namespace
}  // namespace tandem
