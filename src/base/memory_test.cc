#include "base/memory.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Memory, ReadsMeminfo) {
  const std::string_view text =
      "MemTotal:       16384 kB\nMemFree:   1 kB\nMemAvailable:    2048 kB\n";
  EXPECT_EQ(meminfo_bytes(text, "MemTotal"), 16384U * 1024);
  EXPECT_EQ(meminfo_bytes(text, "MemAvailable"), 2048U * 1024);
  EXPECT_EQ(meminfo_bytes(text, "Available"), 0U);
  EXPECT_EQ(meminfo_bytes("MemTotal:", "MemTotal"), 0U);
}

TEST(Memory, KnowsWhatThisMachineHas) {
  const auto available = available_memory();
  ASSERT_TRUE(available.has_value());
  EXPECT_GT(*available, 0U);
}

}  // namespace
}  // namespace tandem
