#include "checkpoint/npz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tandem::checkpoint {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMostEntries = std::numeric_limits<std::uint16_t>::max() - 1;
constexpr std::size_t kMostNameBytes = 1000;

void put16(std::string& into, std::size_t value) {
  into += static_cast<char>(value & 0xff);
  into += static_cast<char>((value >> 8) & 0xff);
}

void put32(std::string& into, std::size_t value) {
  put16(into, value & 0xffff);
  put16(into, value >> 16);
}

// One file of the archive.
struct Entry {
  std::string name;
  std::string npy;  // The bytes in front of the numbers.
  std::string_view values;
  std::uint64_t offset = 0;  // Of its local header.
  std::size_t crc = 0;

  std::size_t bytes() const { return npy.size() + values.size(); }
};

std::size_t crc_of(const Entry& entry) {
  uLong crc = 0;
  for (const std::string_view bytes : {std::string_view(entry.npy), entry.values}) {
    // zlib takes a null pointer, which an empty tensor may have, as a wish to start again.
    if (bytes.empty()) continue;
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  return crc;
}

// What the local header and the central directory both say of an entry.
void put_common(std::string& into, const Entry& entry) {
  put16(into, 20);       // Version needed: 2.0.
  put16(into, 1 << 11);  // The name is UTF-8.
  put16(into, 0);        // Stored.
  put16(into, 0);        // 00:00, and
  put16(into, 0x21);     // 1 January 1980, zip's first day: equal models give equal archives.
  put32(into, entry.crc);
  put32(into, entry.bytes());  // Compressed.
  put32(into, entry.bytes());
  put16(into, entry.name.size());
  put16(into, 0);  // Extra field.
}

std::string local_header(const Entry& entry) {
  std::string header = "PK\x03\x04";
  put_common(header, entry);
  return header + entry.name;
}

std::string directory_line(const Entry& entry) {
  std::string line = "PK\x01\x02";
  put16(line, 20);  // Made by: 2.0, FAT.
  put_common(line, entry);
  put16(line, 0);  // Comment.
  put16(line, 0);  // Disk.
  put16(line, 0);  // Internal attributes.
  put32(line, 0);  // External attributes.
  put32(line, entry.offset);
  return line + entry.name;
}

std::string end_of_directory(std::size_t entries, std::size_t bytes, std::uint64_t offset) {
  std::string end = "PK\x05\x06";
  put16(end, 0);  // This disk, and
  put16(end, 0);  // the directory's.
  put16(end, entries);
  put16(end, entries);
  put32(end, bytes);
  put32(end, offset);
  put16(end, 0);  // Comment.
  return end;
}

// A name must not lead out of the folder where someone unpacks the archive.
Status check_name(const std::string& name) {
  const bool leads_out =
      name.starts_with('/') || ("/" + name + "/").find("/../") != std::string::npos;
  if (name.empty() || name.size() > kMostNameBytes || leads_out ||
      name.find_first_of(std::string_view("\\:\0", 3)) != std::string::npos) {
    return Error(Code::kInvalidArgument,
                 fmt::format("tensor \"{}\" cannot be a file in an npz archive; export to "
                             "safetensors, or rename it",
                             name.substr(0, kMostNameBytes)));
  }
  return {};
}

Error too_large() {
  return Error(Code::kInvalidArgument,
               "the model is too large for npz (4 GiB, 65,534 tensors); export to safetensors");
}

}  // namespace

std::string npy_prefix(const Shape& shape, Dtype dtype) {
  const char* comma = shape.size() == 1 ? "," : "";
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  dtype == Dtype::kI64 ? "<i8" : "<f4", fmt::join(shape, ", "), comma);
  constexpr std::size_t kFixedBytes = 10;  // Magic, version, length.
  const std::size_t whole = (kFixedBytes + text.size() + 1 + 63) / 64 * 64;
  text.resize(whole - kFixedBytes - 1, ' ');
  text += '\n';
  std::string prefix("\x93NUMPY\x01\x00", 8);
  put16(prefix, text.size());
  return prefix + text;
}

Status write_npz(const std::filesystem::path& path, std::span<const TensorView> tensors) {
  TANDEM_TRY(check_tensors(tensors));
  if (tensors.size() > kMostEntries) return too_large();
  std::deque<std::string> headers;  // A deque, because the pieces refer to its elements.
  std::deque<Entry> entries;
  std::vector<std::string_view> pieces;
  std::string directory;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    TANDEM_TRY(check_name(tensor.name));
    Entry& entry = entries.emplace_back();
    entry.name = tensor.name + ".npy";
    entry.npy = npy_prefix(tensor.shape, tensor.integers ? Dtype::kI64 : Dtype::kF32);
    entry.values = as_chars(tensor);
    entry.offset = offset;
    if (offset + entry.bytes() > kMostBytes) return too_large();
    entry.crc = crc_of(entry);
    const std::string& header = headers.emplace_back(local_header(entry));
    pieces.insert(pieces.end(), {header, entry.npy, entry.values});
    offset += header.size() + entry.bytes();
    directory += directory_line(entry);
  }
  if (offset + directory.size() > kMostBytes) return too_large();
  const std::string end = end_of_directory(entries.size(), directory.size(), offset);
  pieces.insert(pieces.end(), {directory, end});
  return write_file_atomic(path, pieces);
}

}  // namespace tandem::checkpoint
