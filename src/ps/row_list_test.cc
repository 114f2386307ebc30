#include "ps/row_list.h"

#include <gtest/gtest.h>

namespace tandem::ps {
namespace {

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(RowList, IsReadAsItWasWritten) {
  for (const RowList& list :
       {RowList{}, {0}, {0, 1, 2}, {127, 128, 256, 400}, {0, 1U << 31, 0xfffffffe, 0xffffffff}}) {
    for (std::size_t cut = 0; cut <= list.size(); ++cut) {
      RowList read;
      EXPECT_TRUE(decode_rows(bytes_in(encode_rows(list, 0, cut)), list.size(), read).ok());
      EXPECT_TRUE(
          decode_rows(bytes_in(encode_rows(list, cut, list.size())), list.size(), read).ok());
      EXPECT_EQ(read, list);
    }
  }
}

TEST(RowList, TakesAByteARowWhereFewAreLeftOut) {
  EXPECT_EQ(encode_rows(RowList{3, 4, 5, 133}, 0, 4), std::string("\3\0\0\x7f", 4));
  EXPECT_EQ(encode_rows(RowList{128}, 0, 1), "\x80\1");
}

TEST(RowList, RefusesBytesThatAreNone) {
  const auto is_refused = [](const std::string& bytes, std::size_t most = 10, RowList list = {}) {
    return !decode_rows(bytes_in(bytes), most, list).ok();
  };
  EXPECT_FALSE(is_refused("\1\2"));
  EXPECT_TRUE(is_refused("\1\2", 1)) << "too many";
  EXPECT_TRUE(is_refused("\1\x80")) << "ends in the middle";
  EXPECT_TRUE(is_refused("\x80\x80\x80\x80\x80\1")) << "too long";
  EXPECT_TRUE(is_refused("\xff\xff\xff\xff\x7f")) << "too large";
  EXPECT_FALSE(is_refused("\xff\xff\xff\xff\x0f"));
  EXPECT_TRUE(is_refused(std::string(1, '\0'), 10, {0xffffffff})) << "behind the last row";
}

}  // namespace
}  // namespace tandem::ps
