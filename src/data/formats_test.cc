// gzip, IDX and npy, and the arrays in them.
#include <gtest/gtest.h>

#include <numeric>

#include "data/array.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "data/npy.h"
#include "data/testing.h"

namespace tandem::data {
namespace {

TEST(Gzip, InflatesWhatWasDeflated) {
  std::string content;
  for (int i = 0; i < 100000; ++i) content += std::to_string(i);
  const auto inflated = inflate_gzip(gzip_bytes(content));
  ASSERT_TRUE(inflated.ok()) << inflated.error().message();
  EXPECT_EQ(*inflated, content);
}

TEST(Gzip, InflatesNothingAndSeveralMembers) {
  EXPECT_EQ(*inflate_gzip(gzip_bytes("")), "");
  EXPECT_EQ(*inflate_gzip(gzip_bytes("one ") + gzip_bytes("two")), "one two");
}

TEST(Gzip, RefusesABomb) {
  const std::string bomb = gzip_bytes(std::string(1 << 20, 'x'));
  EXPECT_TRUE(fails(inflate_gzip(bomb, (1 << 20) - 1), Code::kInvalidArgument, "larger than the"));
  EXPECT_TRUE(inflate_gzip(bomb, 1 << 20).ok());
}

TEST(Gzip, ReportsEveryTruncation) {
  const std::string whole =
      gzip_bytes("a text that is long enough to be cut in many places, a text that repeats");
  for (std::size_t size = 2; size < whole.size(); ++size) {
    EXPECT_TRUE(fails(inflate_gzip(whole.substr(0, size)), Code::kCorrupt, "truncated")) << size;
  }
}

TEST(Gzip, ReportsDamageAndTrailingBytes) {
  std::string damaged = gzip_bytes("some content to damage, some content to damage");
  damaged[damaged.size() - 6] ^= 1;  // In the checksum.
  EXPECT_TRUE(fails(inflate_gzip(damaged), Code::kCorrupt, "damaged near offset"));
  EXPECT_TRUE(fails(inflate_gzip(gzip_bytes("x") + "y"), Code::kCorrupt, "follow the gzip data"));
}

TEST(Idx, ReadsImagesAndLabels) {
  const std::string images = idx_bytes(8, {2, 1, 3}, "abcdef");
  const auto array = parse_idx(images);
  ASSERT_TRUE(array.ok()) << array.error().message();
  EXPECT_EQ(array->shape, (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(array->bytes, "abcdef");
  EXPECT_EQ(*to_floats(*array), (std::vector<float>{97, 98, 99, 100, 101, 102}));
}

TEST(Idx, ReadsBigEndianNumbersOfEveryType) {
  using namespace std::string_literals;
  const auto numbers = [](std::uint8_t type, const std::string& payload, std::uint32_t count) {
    const std::string bytes = idx_bytes(type, {count}, payload);
    const auto array = parse_idx(bytes);
    return array.ok() ? *to_doubles(*array) : std::vector<double>();
  };
  EXPECT_EQ(numbers(9, "\xff\x01"s, 2), (std::vector<double>{-1, 1}));
  EXPECT_EQ(numbers(11, "\xff\xfe\x01\x00"s, 2), (std::vector<double>{-2, 256}));
  EXPECT_EQ(numbers(12, "\x00\x01\x00\x00"s, 1), (std::vector<double>{65536}));
  EXPECT_EQ(numbers(13, "\x3f\xc0\x00\x00"s, 1), (std::vector<double>{1.5}));
  EXPECT_EQ(numbers(14, "\xbf\xf8\x00\x00\x00\x00\x00\x00"s, 1), (std::vector<double>{-1.5}));
}

TEST(Idx, SaysWhatIsWrong) {
  const std::string whole = idx_bytes(8, {2, 3}, "abcdef");
  EXPECT_TRUE(
      fails(parse_idx(whole.substr(0, whole.size() - 1)), Code::kCorrupt,
            "promises an array 2x3 of u8, 6 bytes, but 5 bytes follow it: the file is truncated"));
  EXPECT_TRUE(
      fails(parse_idx(whole + "x"), Code::kCorrupt, "7 bytes follow it: the file is damaged"));
  EXPECT_TRUE(fails(parse_idx(whole.substr(0, 9)), Code::kCorrupt,
                    "less than an IDX header of rank 2, 12 bytes"));
  EXPECT_TRUE(fails(parse_idx("PNG?"), Code::kCorrupt, "not an IDX file"));
  EXPECT_TRUE(fails(parse_idx(""), Code::kCorrupt, "not an IDX file"));
  EXPECT_TRUE(fails(parse_idx(idx_bytes(8, {}, "")), Code::kCorrupt, "claims 0 dimensions"));
  const std::vector<std::uint32_t> huge(8, 0xffffffff);
  EXPECT_TRUE(fails(parse_idx(idx_bytes(14, huge, "")), Code::kCorrupt, "which no file can hold"));
}

template <typename T>
std::vector<double> npy_numbers(std::string_view descr, const std::vector<T>& values) {
  const std::string bytes =
      npy_bytes(descr, {static_cast<std::int64_t>(values.size())}, raw(values));
  const auto npy = parse_npy(bytes);
  return npy.ok() ? *to_doubles(npy->array) : std::vector<double>();
}

TEST(Npy, ReadsEveryType) {
  EXPECT_EQ(npy_numbers<std::uint8_t>("|b1", {1, 0}), (std::vector<double>{1, 0}));
  EXPECT_EQ(npy_numbers<std::uint8_t>("|u1", {255, 7}), (std::vector<double>{255, 7}));
  EXPECT_EQ(npy_numbers<std::int8_t>("|i1", {-3}), (std::vector<double>{-3}));
  EXPECT_EQ(npy_numbers<std::uint16_t>("<u2", {65535}), (std::vector<double>{65535}));
  EXPECT_EQ(npy_numbers<std::int16_t>("<i2", {-300}), (std::vector<double>{-300}));
  EXPECT_EQ(npy_numbers<std::uint32_t>("<u4", {4000000000}), (std::vector<double>{4e9}));
  EXPECT_EQ(npy_numbers<std::int32_t>("<i4", {-70000}), (std::vector<double>{-70000}));
  EXPECT_EQ(npy_numbers<std::int64_t>("<i8", {-1}), (std::vector<double>{-1}));
  EXPECT_EQ(npy_numbers<float>("<f4", {0.5F}), (std::vector<double>{0.5}));
  EXPECT_EQ(npy_numbers<double>("<f8", {-2.25}), (std::vector<double>{-2.25}));
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  const std::string first = npy_bytes("|u1", {3}, "abc");
  for (char version : {'\2', '\3'}) {
    std::string bytes = first;
    bytes[6] = version;
    bytes.insert(10, 2, '\0');  // The length has four bytes.
    const auto npy = parse_npy(bytes);
    ASSERT_TRUE(npy.ok()) << npy.error().message();
    EXPECT_EQ(npy->array.bytes, "abc");
  }
  std::string unknown = first;
  unknown[6] = 4;
  EXPECT_TRUE(fails(parse_npy(unknown), Code::kVersionMismatch, "npy version 4"));
}

TEST(Npy, PutsFortranOrderRight) {
  const std::string bytes = npy_bytes("<i2", {2, 3}, raw<std::int16_t>({1, 4, 2, 5, 3, 6}), "True");
  const auto npy = parse_npy(bytes);
  ASSERT_TRUE(npy.ok()) << npy.error().message();
  ASSERT_EQ(npy->order, NpyOrder::kFortran);
  EXPECT_EQ(to_row_major(npy->array.bytes, npy->array.shape, 2),
            raw<std::int16_t>({1, 2, 3, 4, 5, 6}));
}

TEST(Npy, PutsAnyRankInRowMajorOrder) {
  const std::vector<std::int64_t> shape = {3, 2, 4};
  std::string fortran(24, '\0');
  std::string expected(24, '\0');
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 4; ++k) {
        const char value = static_cast<char>(i * 8 + j * 4 + k);
        expected[static_cast<std::size_t>(value)] = value;
        fortran[static_cast<std::size_t>(i + 3 * j + 6 * k)] = value;
      }
    }
  }
  EXPECT_EQ(to_row_major(fortran, shape, 1), expected);
}

TEST(Npy, RefusesWhatItCannotRead) {
  const auto refused = [](std::string_view descr) {
    return parse_npy(npy_bytes(descr, {1}, "12345678"));
  };
  EXPECT_TRUE(fails(refused("|O"), Code::kInvalidArgument, "npy type '|O' is not supported"));
  EXPECT_TRUE(fails(refused(">f4"), Code::kInvalidArgument, "array.astype('<f4')"));
  EXPECT_TRUE(fails(refused("<c8"), Code::kInvalidArgument, "not supported"));
  EXPECT_TRUE(fails(parse_npy("\x93NUMPX"), Code::kCorrupt, "not an npy file"));
}

std::string with_header(const std::string& header) {
  std::string bytes = "\x93NUMPY\x01";
  bytes.push_back('\0');
  bytes.push_back(static_cast<char>(header.size() & 0xff));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return bytes + header;
}

TEST(Npy, RefusesHostileHeaders) {
  const auto hostile = [](const std::string& header) { return parse_npy(with_header(header)); };
  EXPECT_TRUE(
      fails(hostile("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}"),
            Code::kCorrupt, "no file can hold"));
  EXPECT_TRUE(
      fails(hostile("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
            Code::kCorrupt, "no size"));
  EXPECT_TRUE(fails(hostile("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
                    Code::kCorrupt, "no size"));
  EXPECT_TRUE(
      fails(hostile("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}"),
            Code::kCorrupt, "more than 8 dimensions"));
  EXPECT_TRUE(fails(hostile("{'descr': '<f4', 'fortran_order': False}"), Code::kCorrupt, "lacks"));
  EXPECT_TRUE(
      fails(hostile("{'descr': '<f4', 'descr': '<f4'}"), Code::kCorrupt, "unexpected key 'descr'"));
  EXPECT_TRUE(fails(hostile("{'descr': [('a', '<f4')]}"), Code::kInvalidArgument, "structured"));
  EXPECT_TRUE(fails(hostile("{'descr': '<f4"), Code::kCorrupt, "does not end"));
  EXPECT_TRUE(fails(hostile(""), Code::kCorrupt, "truncated"));
}

TEST(Npy, RefusesHostileLengths) {
  std::string bytes = npy_bytes("|u1", {3}, "abc");
  bytes[6] = 2;  // Now four bytes of length, two of them from the header: a huge number.
  EXPECT_TRUE(fails(parse_npy(bytes), Code::kCorrupt, "65536 are allowed"));
  const std::string whole = npy_bytes("|u1", {3}, "abc");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_npy(whole.substr(0, size)).ok()) << size;
}

TEST(Array, RefusesNumbersThatCannotBeTrainedOn) {
  const auto floats = [](float value) {
    const std::string bytes = npy_bytes("<f4", {2}, raw<float>({1, value}));
    return to_floats(parse_npy(bytes)->array);
  };
  EXPECT_TRUE(
      fails(floats(std::numeric_limits<float>::quiet_NaN()), Code::kInvalidArgument, "element 1"));
  EXPECT_TRUE(fails(floats(std::numeric_limits<float>::infinity()), Code::kInvalidArgument, "inf"));
  EXPECT_TRUE(fails(floats(1e30F), Code::kInvalidArgument, "at most 1e18"));
  EXPECT_TRUE(floats(1e17F).ok());
}

}  // namespace
}  // namespace tandem::data
