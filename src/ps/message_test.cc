#include "ps/message.h"

#include <gtest/gtest.h>

namespace tandem::ps {
namespace {

const Header kPush{.kind = Kind::kPush,
                   .code = 3,
                   .slot = 7,
                   .step = -1,
                   .place = 11,
                   .bytes = 4096,
                   .offset = 1U << 20,
                   .number = 0.125,
                   .sequence = ~std::uint64_t{0}};

TEST(Message, IsReadAsItWasWritten) {
  const auto header = parse(encode(kPush));
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(*header, kPush);
}

// What becomes of it when one byte is another.
Result<Header> with(std::size_t at, std::uint8_t value) {
  HeaderBytes bytes = encode(kPush);
  bytes[at] = std::byte{value};
  return parse(bytes);
}

TEST(Message, OfAnotherProgramVersionOrKindIsRefused) {
  EXPECT_EQ(with(0, 'X').error().code(), Code::kCorrupt);
  EXPECT_EQ(with(4, kMessageVersion + 1).error().code(), Code::kVersionMismatch);
  EXPECT_EQ(with(5, 0).error().code(), Code::kCorrupt);
  EXPECT_EQ(with(5, kLastKind + 1).error().code(), Code::kCorrupt);
  EXPECT_EQ(with(12, 1).error().code(), Code::kCorrupt);
}

TEST(Message, ThatClaimsTooMuchIsRefused) {
  Header huge = kPush;
  huge.bytes = kMostPayload;
  EXPECT_TRUE(parse(encode(huge)).ok());
  ++huge.bytes;
  EXPECT_EQ(parse(encode(huge)).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace tandem::ps
