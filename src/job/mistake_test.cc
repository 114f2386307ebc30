#include "job/mistake.h"

#include <gtest/gtest.h>

namespace tandem::job {
namespace {

Texts texts_of(std::string file) {
  return {"a.toml", std::move(file), {"train.epochs=0"}};
}

TEST(Mistake, DrawsCaretsUnderThePlace) {
  EXPECT_EQ(render(texts_of("x = 1\nyy = 2\n"), {{Place::kFile, 2, 1, 2}, "no yy", "drop it"}),
            "no yy\n"
            "  --> a.toml:2:1\n"
            "   |\n"
            " 2 | yy = 2\n"
            "   | ^^ drop it");
}

TEST(Mistake, NamesTheFileAloneWhenThereIsNoPlace) {
  EXPECT_EQ(render(texts_of(""), {{}, "no model", "add one"}),
            "no model\n  --> a.toml\n   |\n   = add one");
  EXPECT_EQ(render(texts_of(""), {{}, "no model", ""}), "no model\n  --> a.toml");
}

TEST(Mistake, QuotesOverrides) {
  EXPECT_EQ(render(texts_of(""), {{Place::kFile + 1, 1, 14, 1}, "not 0", ""}),
            "not 0\n  --> command line\n   |\n   | train.epochs=0\n   |              ^");
}

TEST(Mistake, ShowsControlCharactersAndBrokenBytesAsQuestionMarks) {
  const std::string shown =
      render(texts_of("a\x1b\xff\xc2\x9b\tb\r\n"), {{Place::kFile, 1, 6, 1}, "\x1b[31m", "\n"});
  EXPECT_EQ(shown, "?[31m\n  --> a.toml:1:6\n   |\n 1 | a???    b\n   |         ^ ?");
}

TEST(Mistake, ShowsEveryByteOfACharacterThatIsNone) {
  const std::string line("a\xed\xa0\x80\x7f\0\xe2\x82", 8);  // A surrogate; one that is cut off.
  const std::string shown = render(texts_of(line), {{Place::kFile, 1, 1, 1}, "m", ""});
  EXPECT_EQ(shown, "m\n  --> a.toml:1:1\n   |\n 1 | a???????\n   | ^");
}

TEST(Mistake, CountsWideAndCombiningCharacters) {
  const std::string shown = render(texts_of("日e\u0301 x"), {{Place::kFile, 1, 5, 1}, "m", ""});
  EXPECT_EQ(shown, "m\n  --> a.toml:1:5\n   |\n 1 | 日e\u0301 x\n   |     ^");
}

TEST(Mistake, CutsLongLinesAroundTheCarets) {
  const std::string line = std::string(500, 'a') + "BBB" + std::string(500, 'c');
  const std::string shown = render(texts_of(line), {{Place::kFile, 1, 501, 3}, "m", "h"});
  EXPECT_EQ(shown, "m\n  --> a.toml:1:501\n   |\n 1 | ..." + std::string(40, 'a') + "BBB" +
                       std::string(57, 'c') + "...\n   | " + std::string(43, ' ') + "^^^ h");
}

TEST(Mistake, CutsCaretsAtTheLinesEnd) {
  const std::string shown = render(texts_of("[1,\n2]"), {{Place::kFile, 1, 1, 1U << 30}, "m", ""});
  EXPECT_EQ(shown, "m\n  --> a.toml:1:1\n   |\n 1 | [1,\n   | ^^^");
}

TEST(Mistake, PointsBehindTheLastLine) {
  const std::string shown = render(texts_of("a\n"), {{Place::kFile, 7, 9, 1}, "m", ""});
  EXPECT_EQ(shown, "m\n  --> a.toml:7:9\n   |\n 7 | \n   | ^");
}

TEST(Mistakes, AreShownInTheOrderOfTheText) {
  Mistakes mistakes;
  mistakes.add({Place::kFile, 2, 1, 1}, "second", "");
  mistakes.add({Place::kFile, 1, 1, 1}, "first", "");
  EXPECT_EQ(mistakes.render(texts_of("a\nb\n")),
            "first\n  --> a.toml:1:1\n   |\n 1 | a\n   | ^\n\n"
            "error: second\n  --> a.toml:2:1\n   |\n 2 | b\n   | ^");
}

TEST(Mistakes, AreNotShownWithoutEnd) {
  Mistakes mistakes;
  for (std::size_t i = 0; i < 2 * Mistakes::kMostShown; ++i) mistakes.add({}, "again", "");
  EXPECT_TRUE(mistakes.full());
  const std::string shown = mistakes.render(texts_of(""));
  EXPECT_TRUE(shown.ends_with("\n\nerror: there are more mistakes like these; they are not shown"))
      << shown;
}

}  // namespace
}  // namespace tandem::job
