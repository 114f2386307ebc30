#include "background_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "base/descriptor.h"

namespace tandem::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A pipe whose capacity is one page, the least there is.
class BackgroundWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> fds{};
    ASSERT_EQ(::pipe2(fds.data(), O_CLOEXEC), 0);
    reader = Descriptor(fds[0]);
    writer_end = Descriptor(fds[1]);
    capacity = static_cast<std::size_t>(::fcntl(fds[1], F_SETPIPE_SZ, 1));
    ASSERT_GT(capacity, 0U);
  }
  // Reads until `bytes` have come; a deadline guards against a writer that is stuck.
  std::string read(std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      pollfd entry{reader.get(), POLLIN, 0};
      if (::poll(&entry, 1, 10'000) != 1) break;
      std::array<char, 4096> chunk;
      const ssize_t got = ::read(reader.get(), chunk.data(), chunk.size());
      if (got <= 0) break;
      text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

  Descriptor reader, writer_end;
  std::size_t capacity = 0;
};

TEST_F(BackgroundWriterTest, WritesInOrder) {
  BackgroundWriter writer(writer_end.get());
  EXPECT_TRUE(writer.write(Weight::kLine, "one\n"));
  EXPECT_TRUE(writer.write(Weight::kLast, "two\n"));
  EXPECT_TRUE(writer.finish(seconds(10)));
  EXPECT_TRUE(writer.write(Weight::kFrame, "three\n")) << "nothing is waiting";
  EXPECT_TRUE(writer.finish(seconds(10)));
  EXPECT_EQ(read(14), "one\ntwo\nthree\n");
}

TEST_F(BackgroundWriterTest, NeverWaitsAndLeavesOutWhatMattersLeast) {
  const std::string stuck(capacity + 1, 'x');
  std::string expected = stuck;
  {
    BackgroundWriter writer(writer_end.get());
    ASSERT_TRUE(writer.write(Weight::kLine, stuck));
    EXPECT_FALSE(writer.finish(milliseconds(20)));
    EXPECT_FALSE(writer.write(Weight::kFrame, "frame"));
    const std::string line(1000, 'l');
    std::size_t taken = 0;
    while (taken < 1000 && writer.write(Weight::kLine, line)) {
      expected += line;
      ++taken;
    }
    EXPECT_LT(taken, BackgroundWriter::kMostWaitingBytes / line.size());
    EXPECT_TRUE(writer.write(Weight::kLast, "the end\n"));
    expected += "the end\n";
    EXPECT_EQ(read(expected.size()), expected);
    EXPECT_TRUE(writer.finish(seconds(10)));
  }
}

TEST_F(BackgroundWriterTest, DoesNotOutwaitAReaderThatNeverComes) {
  const auto begin = std::chrono::steady_clock::now();
  {
    BackgroundWriter writer(writer_end.get());
    writer.write(Weight::kLast, std::string(capacity + 1, 'x'));
    EXPECT_FALSE(writer.finish(milliseconds(20)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  // Lets the thread that was left behind end before the descriptors are closed.
  EXPECT_EQ(read(capacity + 1).size(), capacity + 1);
}

TEST_F(BackgroundWriterTest, AClosedReaderIsNoError) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  reader.close();
  BackgroundWriter writer(writer_end.get());
  EXPECT_TRUE(writer.write(Weight::kLine, "one\n"));
  EXPECT_TRUE(writer.finish(seconds(10)));
  EXPECT_TRUE(writer.write(Weight::kLine, "two\n"));
  EXPECT_TRUE(writer.finish(seconds(10)));
  std::signal(SIGPIPE, before);
}

TEST_F(BackgroundWriterTest, ADescriptorThatSomebodyMadeNonBlockingLosesNothing) {
  ASSERT_EQ(::fcntl(writer_end.get(), F_SETFL, O_NONBLOCK), 0);
  BackgroundWriter writer(writer_end.get());
  const std::string text(capacity * 4, 'x');
  ASSERT_TRUE(writer.write(Weight::kLine, text));
  EXPECT_EQ(read(text.size()), text);
  EXPECT_TRUE(writer.finish(seconds(10)));
}

}  // namespace
}  // namespace tandem::cli
