#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tandem {
namespace {

constexpr std::string_view kKeys[] = {"optimizer", "epochs", "batch", "seed", "lr", "sgd", "adam"};

TEST(Nearest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(nearest("optimiser", kKeys), "optimizer");
  EXPECT_EQ(nearest("epoch", kKeys), "epochs");
  EXPECT_EQ(nearest("btach", kKeys), "batch");  // Swapped neighbours are one mistake.
  EXPECT_EQ(nearest("adm", kKeys), "adam");
}

TEST(Nearest, DoesNotCareAboutCase) {
  EXPECT_EQ(nearest("SGD", kKeys), "sgd");
  EXPECT_EQ(nearest("Batch", kKeys), "batch");
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("zebra", kKeys), "");
  EXPECT_EQ(nearest("", kKeys), "");
  EXPECT_EQ(nearest("x", kKeys), "");
  EXPECT_EQ(nearest("lr", {}), "");
  EXPECT_EQ(nearest(std::string(100000, 'b'), kKeys), "");
}

TEST(Text, ShowsControlCharactersAsQuestionMarks) {
  EXPECT_EQ(without_controls("a\x1b[31mb\x7f\tc\n"), "a?[31mb??c?");
  EXPECT_EQ(without_controls("a\x1b\tb\n", "\n\t"), "a?\tb\n");
  EXPECT_EQ(without_controls("\xc2\x9b\xc2\xb5 \xc3\xa9\xff\xc2"), "?\xc2\xb5 \xc3\xa9\xff\xc2");
  EXPECT_EQ(without_controls(std::string_view("\0", 1)), "?");
}

TEST(Text, GroupsDigits) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-123), "-123");
  EXPECT_EQ(with_commas(-1234), "-1,234");
  EXPECT_EQ(with_commas(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Text, WritesBytesWithUnits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(3435973836), "3.2 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16384.0 PiB");
}

TEST(Text, WritesDurations) {
  EXPECT_EQ(human_seconds(0), "0 us");
  EXPECT_EQ(human_seconds(0.000042), "42 us");
  EXPECT_EQ(human_seconds(0.0123), "12 ms");
  EXPECT_EQ(human_seconds(0.9999), "1.0 s");
  EXPECT_EQ(human_seconds(59.99), "1 m 00 s");
  EXPECT_EQ(human_seconds(75.3), "1 m 15 s");
  EXPECT_EQ(human_seconds(3599.9), "1 h 00 m");
  EXPECT_EQ(human_seconds(7260), "2 h 01 m");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::infinity()), "unknown");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::quiet_NaN()), "unknown");
}

}  // namespace
}  // namespace tandem
