// A file without a name: a place on disk for what would take too much memory, gone with its last
// user, also when that is killed. Written piece by piece, then mapped. Belongs to one thread at a
// time; what is mapped may be read by many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem {

class NamelessFile {
 public:
  // In the file system of that directory.
  static Result<NamelessFile> create(const std::filesystem::path& directory);
  NamelessFile(NamelessFile&& other) noexcept;
  NamelessFile& operator=(NamelessFile&&) = delete;
  ~NamelessFile();

  // kOutOfSpace when the disk is full.
  Status append(std::span<const std::byte> bytes);
  // All that was appended, to be read by bytes(). The last call of these two.
  Status finish();
  std::span<const std::byte> bytes() const { return {data_, written_}; }

 private:
  NamelessFile(std::filesystem::path directory, Descriptor file)
      : directory_(std::move(directory)), file_(std::move(file)) {}
  Status flush();

  std::filesystem::path directory_;  // For errors.
  Descriptor file_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace tandem
