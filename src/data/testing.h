// Files for tests: a directory that disappears with the test, and the bytes of small IDX, npy and
// gzip files.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::data {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot create " << name;
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file; its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& shape,
                             std::string_view payload) {
  std::string bytes = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(extent >> shift));
  }
  return bytes.append(payload);
}

inline std::string npy_bytes(std::string_view descr, const std::vector<std::int64_t>& shape,
                             std::string_view payload, std::string_view fortran = "False") {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({},), }}\n",
                                   descr, fortran, fmt::join(shape, ", "));
  std::string bytes = "\x93NUMPY\x01";
  bytes.push_back('\0');
  bytes.push_back(static_cast<char>(header.size() & 0xff));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return bytes.append(header).append(payload);
}

// The bytes of numbers as they lie in memory.
template <typename T>
std::string raw(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

inline std::string gzip_bytes(std::string_view content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Whether `result` failed with `code` and a message that has `part` in it.
template <typename R>
testing::AssertionResult fails(const R& result, Code code, std::string_view part) {
  if (result.ok()) return testing::AssertionFailure() << "succeeded";
  const Error& error = result.error();
  if (error.code() == code && error.message().find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(error.code()) << ": " << error.message();
}

}  // namespace tandem::data
