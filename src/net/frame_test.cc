#include "net/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/bytes.h"
#include "net/hello.h"

namespace tandem::net {
namespace {

constexpr std::size_t kMost = 1000;

std::string bytes_of(const Frame& frame) {
  return std::string(frame.header.data(), frame.header.size()) + frame.payload;
}

Result<std::vector<Frame>> read(std::string_view bytes, std::size_t piece) {
  FrameReader reader(kMost);
  std::vector<Frame> frames;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    std::string_view part = bytes.substr(0, piece);
    while (!part.empty()) {
      TANDEM_ASSIGN(auto frame, reader.next(part));
      if (frame.has_value()) frames.push_back(std::move(*frame));
    }
  }
  return frames;
}

TEST(NetFrame, IsReadFromPiecesOfAnySize) {
  const std::string stream = bytes_of(make_frame(3, "hello", 0)) + bytes_of(make_frame(4, "", 1)) +
                             bytes_of(make_frame(kBeat, "", 2)) +
                             bytes_of(make_frame(5, std::string(kMost, 'x'), 3));
  for (const std::size_t piece : {1UL, 7UL, 40UL, 41UL, stream.size()}) {
    const auto frames = read(stream, piece);
    ASSERT_TRUE(frames.ok());
    ASSERT_EQ(frames->size(), 4U);
    EXPECT_EQ((*frames)[0].kind, 3);
    EXPECT_EQ((*frames)[0].payload, "hello");
    EXPECT_EQ((*frames)[1].payload, "");
    EXPECT_EQ((*frames)[2].kind, kBeat);
    EXPECT_EQ((*frames)[3].payload.size(), kMost);
  }
}

TEST(NetFrame, HasTheLayoutOfTheDocuments) {
  const std::string bytes = bytes_of(make_frame(0x1234, "abc", 5));
  EXPECT_EQ(bytes.substr(0, 24),
            std::string("TDNF\x01\0\x34\x12\x03\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0", 24));
  EXPECT_EQ(bytes.substr(40), "abc");
}

TEST(NetFrame, IsRefusedByItsHeaderAlone) {
  struct Case {
    std::size_t offset;
    std::uint64_t value;
    Code code;
  };
  for (const Case& wrong :
       {Case{0, 'x', Code::kCorrupt}, Case{4, 2, Code::kVersionMismatch},
        Case{8, kMost + 1, Code::kCorrupt}, Case{8, std::uint64_t{1} << 63, Code::kCorrupt},
        Case{8, ~std::uint64_t{0}, Code::kCorrupt}, Case{16, 1, Code::kCorrupt},
        Case{16, ~std::uint64_t{0}, Code::kCorrupt}}) {
    std::string header = bytes_of(make_frame(1, "", 0));
    if (wrong.offset < 8)
      header[wrong.offset] = static_cast<char>(wrong.value);
    else
      put(header.data() + wrong.offset, wrong.value);
    const auto frames = read(header, header.size());
    ASSERT_FALSE(frames.ok()) << wrong.offset << " " << wrong.value;
    EXPECT_EQ(frames.error().code(), wrong.code);
  }
}

TEST(NetFrame, IsRefusedWhenRepeatedOrLeftOut) {
  const std::string first = bytes_of(make_frame(1, "a", 0)),
                    third = bytes_of(make_frame(1, "c", 2));
  EXPECT_EQ(read(first + first, 9).error().code(), Code::kCorrupt);
  EXPECT_EQ(read(first + third, 9).error().code(), Code::kCorrupt);
}

TEST(NetFrame, OfAReservedKindCanOnlyBeABeat) {
  EXPECT_TRUE(read(bytes_of(make_frame(kBeat, "", 0)), 99).ok());
  EXPECT_FALSE(read(bytes_of(make_frame(kBeat, "x", 0)), 99).ok());
  EXPECT_FALSE(read(bytes_of(make_frame(kFirstReservedKind, "", 0)), 99).ok());
  EXPECT_TRUE(read(bytes_of(make_frame(kFirstReservedKind - 1, "", 0)), 99).ok());
}

TEST(NetHello, IsReadInAnyVersionButNotInTheWrongRole) {
  Hello hello{77, Role::kListens, {}};
  hello.nonce.fill('n');
  const HelloBytes bytes = encode(hello);
  const auto read_back = parse_hello({bytes.data(), bytes.size()}, Role::kListens);
  ASSERT_TRUE(read_back.ok());
  EXPECT_EQ(read_back->version, 77);
  EXPECT_EQ(read_back->nonce, hello.nonce);
  EXPECT_FALSE(parse_hello({bytes.data(), bytes.size()}, Role::kConnects).ok());
  EXPECT_FALSE(parse_hello(std::string(kHelloBytes, 'G'), Role::kConnects).ok());
}

TEST(NetHello, AnswersOnlyWithKnownReasons) {
  HelloBytes bytes = encode(Answer{Reason::kOnlyTls, {}});
  EXPECT_EQ(parse_answer({bytes.data(), bytes.size()})->reason, Reason::kOnlyTls);
  bytes[4] = 5;
  EXPECT_FALSE(parse_answer({bytes.data(), bytes.size()}).ok());
  bytes[4] = 0;
  bytes[6] = 1;
  EXPECT_FALSE(parse_answer({bytes.data(), bytes.size()}).ok());
}

}  // namespace
}  // namespace tandem::net
