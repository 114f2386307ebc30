#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class AtomicFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tandem-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ / "file";
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }
  static Status append(AtomicFile& file, std::string_view text) {
    return file.append(std::as_bytes(std::span(text)));
  }

  fs::path directory_, path_;
};

TEST_F(AtomicFiles, HaveTheirNameOnceTheyAreCommitted) {
  ASSERT_TRUE(write_file_atomic(path_, "old").ok());
  // More than is written before the disk is set to work.
  const std::string many(std::size_t{20} << 20, 'x');
  AtomicFile file = AtomicFile::create(path_, many.size() + 2).value();
  ASSERT_TRUE(append(file, "a").ok());
  ASSERT_TRUE(append(file, many).ok());
  ASSERT_TRUE(append(file, "").ok());
  ASSERT_TRUE(append(file, "b").ok());
  EXPECT_EQ(read_file(path_).value(), "old");
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(read_file(path_).value(), "a" + many + "b");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFiles, LeaveNothingWhenTheyAreGivenUp) {
  {
    AtomicFile file = AtomicFile::create(path_, 0).value();
    ASSERT_TRUE(append(file, "half").ok());
    EXPECT_EQ(files(), 1U);
    const AtomicFile moved = std::move(file);
    EXPECT_EQ(files(), 1U);
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(AtomicFiles, AreRefusedAtOnceWhenTheyCannotFit) {
  ASSERT_TRUE(write_file_atomic(path_, "old").ok());
  const Result<AtomicFile> file = AtomicFile::create(path_, std::uint64_t{1} << 62);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), Code::kOutOfSpace) << file.error().message();
  EXPECT_EQ(read_file(path_).value(), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFiles, LeaveNothingWhenTheirNameCannotBeTaken) {
  fs::create_directories(path_ / "in the way");
  {
    AtomicFile file = AtomicFile::create(path_, 0).value();
    const Status status = file.commit();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message().find("rename onto " + path_.string()), std::string::npos);
  }
  EXPECT_EQ(files(), 1U);
  EXPECT_TRUE(fs::is_directory(path_));
}

}  // namespace
}  // namespace tandem
