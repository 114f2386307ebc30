#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace tandem {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tandem-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::size_t files_left() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }

  fs::path directory_;
};

TEST_F(File, ReadsBackWhatWasWritten) {
  const fs::path path = directory_ / "a";
  const std::string content("one\0two\n", 8);
  ASSERT_TRUE(write_file_atomic(path, content).ok());
  EXPECT_EQ(read_file(path).value(), content);
  EXPECT_EQ(files_left(), 1U);
}

TEST_F(File, WritesPiecesOneAfterAnother) {
  const std::string large(300000, 'x');
  const std::string_view pieces[] = {"head ", large, "", " tail"};
  ASSERT_TRUE(write_file_atomic(directory_ / "a", pieces).ok());
  EXPECT_EQ(read_file(directory_ / "a").value(), "head " + large + " tail");
}

TEST_F(File, ReplacesAnOldFileWhole) {
  const fs::path path = directory_ / "a";
  ASSERT_TRUE(write_file_atomic(path, "a long first version").ok());
  ASSERT_TRUE(write_file_atomic(path, "second").ok());
  EXPECT_EQ(read_file(path).value(), "second");
}

TEST_F(File, FailedWriteLeavesTheOldFileAndNoTemporary) {
  const fs::path path = directory_ / "a";
  ASSERT_TRUE(write_file_atomic(path, "old").ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file_atomic(path, std::string(100000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kOutOfSpace);
  EXPECT_EQ(read_file(path).value(), "old");
  EXPECT_EQ(files_left(), 1U);
}

TEST_F(File, ErrorsNameThePathThatWasAskedFor) {
  const fs::path path = directory_ / "no" / "where";
  const Status written = write_file_atomic(path, "x");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), Code::kNotFound);
  EXPECT_EQ(written.error().message(), "create " + path.string() + ": No such file or directory");
  const auto read = read_file(path);
  EXPECT_EQ(read.error().message(), "open " + path.string() + ": No such file or directory");
  EXPECT_EQ(MappedFile::open(path).error().code(), Code::kNotFound);
}

TEST_F(File, WritersOfOnePathDoNotMix) {
  const fs::path path = directory_ / "a";
  std::vector<std::thread> writers;
  for (char letter : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&path, letter] {
      for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(write_file_atomic(path, std::string(20000, letter)).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string content = read_file(path).value();
  EXPECT_EQ(content, std::string(20000, content.at(0)));
  EXPECT_EQ(files_left(), 1U);
}

TEST_F(File, RefusesFilesLargerThanAllowed) {
  const fs::path path = directory_ / "a";
  ASSERT_TRUE(write_file_atomic(path, "12345").ok());
  EXPECT_EQ(read_file(path, 5).value(), "12345");
  EXPECT_EQ(read_file(path, 4).error().code(), Code::kInvalidArgument);
  fs::resize_file(path, std::uintmax_t{1} << 40);  // Sparse: refused before any of it is read.
  EXPECT_EQ(read_file(path).error().code(), Code::kInvalidArgument);
}

TEST_F(File, RefusesEndlessDevices) {
  EXPECT_EQ(read_file("/dev/zero", 1 << 20).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(MappedFile::open("/dev/zero").error().code(), Code::kInvalidArgument);
}

TEST_F(File, RefusesDirectories) {
  EXPECT_EQ(read_file(directory_).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(MappedFile::open(directory_).error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(write_file_atomic(directory_, "x").ok());
}

TEST_F(File, MapsTheBytesOfAFile) {
  const fs::path path = directory_ / "a";
  ASSERT_TRUE(write_file_atomic(path, "abc").ok());
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  MappedFile moved = std::move(mapped).value();
  ASSERT_EQ(moved.bytes().size(), 3U);
  EXPECT_EQ(moved.bytes()[2], std::byte{'c'});
  moved = MappedFile::open(path).value();
  EXPECT_EQ(moved.bytes()[0], std::byte{'a'});
}

TEST_F(File, MapsAnEmptyFileAsNothing) {
  ASSERT_TRUE(write_file_atomic(directory_ / "a", "").ok());
  EXPECT_TRUE(MappedFile::open(directory_ / "a").value().bytes().empty());
}

TEST_F(File, CreatesDirectoriesOnce) {
  const fs::path path = directory_ / "a" / "b" / "c";
  EXPECT_TRUE(tandem::create_directories(path).ok());
  EXPECT_TRUE(tandem::create_directories(path).ok());
  EXPECT_TRUE(fs::is_directory(path));
}

TEST_F(File, CannotCreateADirectoryInsideAFile) {
  ASSERT_TRUE(write_file_atomic(directory_ / "a", "").ok());
  EXPECT_FALSE(tandem::create_directories(directory_ / "a").ok());
  EXPECT_FALSE(tandem::create_directories(directory_ / "a" / "b").ok());
}

}  // namespace
}  // namespace tandem
