#include "checkpoint/path_text.h"

#include <gtest/gtest.h>

namespace tandem::checkpoint {
namespace {

TEST(PathText, LeavesUtf8AsItIs) {
  EXPECT_EQ(path_to_text("/tmp/a é"), "/tmp/a é");
  EXPECT_EQ(path_from_text("/tmp/a é").value(), "/tmp/a é");
}

TEST(PathText, SpellsOtherBytes) {
  const std::filesystem::path path = "/a\xff";
  EXPECT_EQ(path_to_text(path), "hex:2f61ff");
  EXPECT_EQ(path_from_text("hex:2f61ff").value(), path);
}

TEST(PathText, RefusesWhatIsNoPath) {
  for (const char* text : {"hex:2", "hex:zz", "hex:2f6", "hex:+1"}) {
    const auto path = path_from_text(text);
    ASSERT_FALSE(path.ok()) << text;
    EXPECT_EQ(path.error().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace tandem::checkpoint
