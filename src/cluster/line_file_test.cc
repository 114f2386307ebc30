#include "cluster/line_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

TEST(LineFile, AppendsWholeLines) {
  const ScratchDirectory scratch;
  auto file = LineFile::create(scratch.path() / "log");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->append("one").ok());
  EXPECT_TRUE(file->append("").ok());
  EXPECT_TRUE(file->append("three").ok());
  EXPECT_EQ(content_of(scratch.path() / "log"), "one\n\nthree\n");
}

TEST(LineFile, NeverOverwrites) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(LineFile::create(scratch.path() / "log").ok());
  const auto again = LineFile::create(scratch.path() / "log");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), Code::kInvalidArgument);
}

TEST(LineFile, TakesBackALineThatDoesNotFit) {
  const ScratchDirectory scratch;
  auto file = LineFile::create(scratch.path() / "log");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->append("fits").ok());

  // A limit on the size of files fails in the middle of a line, as a full disk does.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = file->append("does not fit at all");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kOutOfSpace);
  EXPECT_EQ(content_of(scratch.path() / "log"), "fits\n");
  EXPECT_TRUE(file->append("next").ok());
  EXPECT_EQ(content_of(scratch.path() / "log"), "fits\nnext\n");
}

}  // namespace
}  // namespace tandem::cluster
