#include "base/nameless_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {
namespace {

namespace fs = std::filesystem;

TEST(NamelessFile, HoldsWhatWasAppendedAndHasNoName) {
  const fs::path directory = fs::temp_directory_path() / ("nameless-" + std::to_string(::getpid()));
  fs::create_directories(directory);
  auto file = NamelessFile::create(directory);
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> all;
  for (int i = 0; i < 700; ++i) {
    const std::vector<std::byte> piece(static_cast<std::size_t>(i), static_cast<std::byte>(i));
    ASSERT_TRUE(file->append(piece).ok());
    all.insert(all.end(), piece.begin(), piece.end());
  }
  EXPECT_TRUE(fs::is_empty(directory));
  ASSERT_TRUE(file->finish().ok());
  const NamelessFile moved = std::move(file).value();
  EXPECT_TRUE(std::ranges::equal(moved.bytes(), all));
  fs::remove_all(directory);
}

TEST(NamelessFile, MayBeEmpty) {
  auto file = NamelessFile::create(fs::temp_directory_path());
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->finish().ok());
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_EQ(NamelessFile::create("no/such/directory").error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tandem
