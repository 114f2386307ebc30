#include "wire/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace tandem::wire {
namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

WorkerMessage progress(std::int64_t step) {
  WorkerMessage message;
  message.mutable_progress()->set_step(step);
  message.mutable_progress()->set_loss(0.25);
  return message;
}

std::string frame_of(const WorkerMessage& message) {
  auto frame = encode(message);
  EXPECT_TRUE(frame.ok());
  return frame.ok() ? *frame : std::string();
}

Code code_of(std::string_view bytes) {
  FrameReader reader;
  reader.feed(as_bytes(bytes));
  const auto next = reader.next();
  EXPECT_FALSE(next.ok());
  return next.ok() ? Code::kInternal : next.error().code();
}

class Pair {
 public:
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0); }
  ~Pair() {
    close_reader();
    ::close(ends_[0]);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  int writer() const { return ends_[0]; }
  int reader() const { return ends_[1]; }
  void close_reader() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

TEST(Frame, HasTheDocumentedLayout) {
  const std::string frame = frame_of(progress(3));
  ASSERT_GT(frame.size(), kHeaderBytes);
  EXPECT_EQ(frame.substr(0, 4), "TDMF");
  EXPECT_EQ(frame[4], 1);
  EXPECT_EQ(frame.substr(5, 3), std::string(3, '\0'));
  EXPECT_EQ(static_cast<std::size_t>(frame[8]), frame.size() - kHeaderBytes);
}

TEST(Frame, AnEmptyMessageTravelsToo) {
  FrameReader reader;
  reader.feed(as_bytes(frame_of(WorkerMessage())));
  const auto next = reader.next();
  ASSERT_TRUE(next.ok());
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ((*next)->body_case(), WorkerMessage::BODY_NOT_SET);
}

TEST(Frame, RefusesAMessageThatIsTooLarge) {
  WorkerMessage message;
  message.mutable_failed()->set_message(std::string(kMaxPayloadBytes + 1, 'x'));
  const auto frame = encode(message);
  ASSERT_FALSE(frame.ok());
  EXPECT_EQ(frame.error().code(), Code::kInvalidArgument);
}

TEST(FrameReader, YieldsEveryMessageHoweverTheStreamIsCut) {
  std::string stream;
  for (int step = 0; step < 5; ++step) stream += frame_of(progress(step));
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader;
    std::vector<std::int64_t> steps;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(as_bytes(std::string_view(stream).substr(at, piece)));
      for (;;) {
        auto next = reader.next();
        ASSERT_TRUE(next.ok()) << next.error().message();
        if (!next->has_value()) break;
        steps.push_back((*next)->progress().step());
      }
    }
    EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 1, 2, 3, 4})) << "pieces of " << piece;
    EXPECT_FALSE(reader.inside_frame());
  }
}

TEST(FrameReader, SaysWhetherTheStreamEndedInsideAFrame) {
  const std::string frame = frame_of(progress(1));
  FrameReader reader;
  EXPECT_FALSE(reader.inside_frame());
  reader.feed(as_bytes(std::string_view(frame).substr(0, frame.size() - 1)));
  ASSERT_TRUE(reader.next().ok());
  EXPECT_TRUE(reader.inside_frame());
}

TEST(FrameReader, NamesWhatIsWrongWithAHeader) {
  std::string frame = frame_of(progress(1));
  std::string bad = frame;
  bad[0] = 'X';
  EXPECT_EQ(code_of(bad), Code::kCorrupt);
  bad = frame;
  bad[4] = 2;
  EXPECT_EQ(code_of(bad), Code::kVersionMismatch);
  bad = frame;
  bad[6] = 1;
  EXPECT_EQ(code_of(bad), Code::kCorrupt);
}

TEST(FrameReader, RefusesAHugeLengthWithoutWaitingForIt) {
  std::string frame = frame_of(progress(1));
  for (std::size_t i = 8; i < 12; ++i) frame[i] = '\xff';
  EXPECT_EQ(code_of(std::string_view(frame).substr(0, kHeaderBytes)), Code::kCorrupt);
}

TEST(FrameReader, NoticesEveryFlippedBit) {
  const std::string frame = frame_of(progress(812));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string bad = frame;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    FrameReader reader;
    reader.feed(as_bytes(bad));
    // A longer length only makes the reader wait for bytes; those then fail the checksum.
    reader.feed(as_bytes(frame));
    const auto next = reader.next();
    EXPECT_TRUE(!next.ok() || !next->has_value()) << "bit " << bit;
  }
}

TEST(FrameReader, RefusesAPayloadThatIsNoMessage) {
  // A whole frame with a right checksum around "field 6, 127 bytes long" and only two bytes: sealed
  // as encode() does.
  const std::string payload =
      "\x32\x7f"
      "ab";
  std::string frame = std::string("TDMF\1\0\0\0\4\0\0\0", 12);
  const auto sum = static_cast<std::uint32_t>(XXH3_64bits_withSeed(
      payload.data(), payload.size(), XXH3_64bits(frame.data(), frame.size())));
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(sum >> (8 * i));
  EXPECT_EQ(code_of(frame + payload), Code::kCorrupt);
}

TEST(FrameReader, StaysFailedAfterAnError) {
  FrameReader reader;
  reader.feed(as_bytes("this is not a frame at all"));
  ASSERT_FALSE(reader.next().ok());
  reader.feed(as_bytes(frame_of(progress(1))));
  const auto next = reader.next();
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code(), Code::kCorrupt);
}

TEST(FrameReader, SurvivesRandomBytes) {
  Rng rng({7});
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = frame_of(progress(round));
    const std::uint64_t changes = rng.below(8);
    for (std::uint64_t i = 0; i < changes; ++i)
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.next());
    bytes.resize(rng.below(bytes.size() + 1));
    FrameReader reader;
    reader.feed(as_bytes(bytes));
    while (true) {
      auto next = reader.next();
      if (!next.ok() || !next->has_value()) break;
    }
  }
}

TEST(Send, ArrivesWholeEvenWhenLargerThanTheSocketsBuffer) {
  Pair pair;
  WorkerMessage message;
  message.mutable_failed()->set_message(std::string(4 << 20, 'x'));
  std::thread writer([&] { EXPECT_TRUE(send(pair.writer(), message).ok()); });
  FrameReader reader;
  std::vector<std::byte> chunk(1 << 16);
  for (;;) {
    const ssize_t got = ::read(pair.reader(), chunk.data(), chunk.size());
    ASSERT_GT(got, 0);
    reader.feed(std::span(chunk).first(static_cast<std::size_t>(got)));
    auto next = reader.next();
    ASSERT_TRUE(next.ok());
    if (next->has_value()) {
      EXPECT_EQ((*next)->failed().message().size(), std::size_t{4} << 20);
      break;
    }
  }
  writer.join();
}

TEST(Send, ReportsAClosedPeerInsteadOfDyingOfSigpipe) {
  Pair pair;
  pair.close_reader();
  const Status status = send(pair.writer(), progress(1));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kPeerLost);
}

TEST(Send, GivesUpOnAPeerThatDoesNotRead) {
  Pair pair;
  WorkerMessage message;
  message.mutable_failed()->set_message(std::string(4 << 20, 'x'));
  const Status status = send(pair.writer(), message, std::chrono::milliseconds(50));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kTimeout);
}

}  // namespace
}  // namespace tandem::wire
