#include "cluster/lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::cluster {
namespace {

std::vector<std::string> split(std::string_view text, std::size_t piece) {
  std::vector<std::string> lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  LineSplitter splitter;
  for (std::size_t at = 0; at < text.size(); at += piece)
    splitter.feed(text.substr(at, piece), sink);
  splitter.finish(sink);
  splitter.finish(sink);
  return lines;
}

TEST(LineSplitter, GivesTheSameLinesHoweverTheBytesArrive) {
  const std::vector<std::string> expected = {"one", "", "three", "no newline"};
  for (std::size_t piece = 1; piece < 24; ++piece) {
    EXPECT_EQ(split("one\n\nthree\r\nno newline", piece), expected) << "pieces of " << piece;
  }
}

TEST(LineSplitter, CutsALineThatNeverEnds) {
  const std::string endless(2 * LineSplitter::kLongestLine + 5, 'x');
  const auto lines = split(endless, 1000);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].size(), LineSplitter::kLongestLine);
  EXPECT_EQ(lines[2].size(), 5U);
}

}  // namespace
}  // namespace tandem::cluster
