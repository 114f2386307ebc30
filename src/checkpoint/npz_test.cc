#include "checkpoint/npz.h"

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::contains;
using testing::slurp;
using testing::TemporaryDirectory;
using namespace std::string_literals;

TEST(NpyPrefix, IsNumpysVersionOne) {
  const std::string prefix = npy_prefix({2, 3});
  EXPECT_EQ(prefix.size() % 64, 0U);
  EXPECT_EQ(prefix.substr(0, 10), "\x93NUMPY\x01\x00\x76\x00"s);
  EXPECT_TRUE(prefix.substr(10).starts_with(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   "));
  EXPECT_EQ(prefix.back(), '\n');
  EXPECT_TRUE(contains(npy_prefix({5}), "'shape': (5,), }"));
  EXPECT_TRUE(contains(npy_prefix({}), "'shape': (), }"));
}

TEST(Npz, HasTheseBytes) {
  const TemporaryDirectory directory;
  const std::vector<float> values = {1, -2};
  ASSERT_TRUE(write_npz(directory / "x.npz", std::vector<TensorView>{{"w", {2}, values}}).ok());
  // The checksum is numpy's: zlib.crc32 of the array's npy file.
  const std::string common =
      "\x14\0\0\x08\0\0\0\0\x21\0\xba\x49\x13\x0a\x88\0\0\0\x88\0\0\0\x05\0\0\0"s;
  const std::string npy = npy_prefix({2}) + "\0\0\x80\x3f\0\0\0\xc0"s;
  const std::string local = "PK\x03\x04"s + common + "w.npy" + npy;
  const std::string directory_line =
      "PK\x01\x02\x14\0"s + common + "\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s + "w.npy";
  const std::string end = "PK\x05\x06\0\0\0\0\x01\0\x01\0"s + "\x33\0\0\0\xab\0\0\0\0\0"s;
  EXPECT_EQ(npy.size(), 0x88U);
  EXPECT_EQ(local.size(), 0xabU);
  EXPECT_EQ(directory_line.size(), 0x33U);
  EXPECT_EQ(slurp(directory / "x.npz"), local + directory_line + end);
}

TEST(Npz, WritesAnArchiveWithoutTensors) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_npz(directory / "x.npz", {}).ok());
  EXPECT_EQ(slurp(directory / "x.npz"), "PK\x05\x06"s + std::string(18, '\0'));
}

TEST(Npz, ChecksumsATensorWithoutNumbers) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_npz(directory / "x.npz", std::vector<TensorView>{{"e", {0, 3}, {}}}).ok());
  // zlib.crc32 of numpy's npy file.
  EXPECT_EQ(slurp(directory / "x.npz").substr(14, 4), "\xa3\x68\x52\x77"s);
}

TEST(Npz, RefusesNamesThatLeadOut) {
  const TemporaryDirectory directory;
  const std::vector<float> values = {1};
  for (const std::string& name : {""s, "/etc/x"s, ".."s, "../x"s, "a/../../x"s, "a\\b"s, "c:x"s,
                                  "a\0b"s, std::string(2000, 'n')}) {
    const Status status =
        write_npz(directory / "x.npz", std::vector<TensorView>{{name, {1}, values}});
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(
      write_npz(directory / "x.npz", std::vector<TensorView>{{"a..b/c", {1}, values}}).ok());
}

TEST(Npz, RefusesMoreThanZipHolds) {
  const TemporaryDirectory directory;
  // Never read, because the size alone is refused.
  const std::span<const float> huge(reinterpret_cast<const float*>(64), std::size_t{1} << 30);
  const Status large =
      write_npz(directory / "x.npz", std::vector<TensorView>{{"w", {1 << 30}, huge}});
  ASSERT_FALSE(large.ok());
  EXPECT_TRUE(contains(large.error().message(), "export to safetensors"));
  std::vector<TensorView> many(65535, TensorView{"", {0}, {}});
  for (std::size_t i = 0; i < many.size(); ++i) many[i].name = std::to_string(i);
  EXPECT_FALSE(write_npz(directory / "x.npz", many).ok());
}

}  // namespace
}  // namespace tandem::checkpoint
