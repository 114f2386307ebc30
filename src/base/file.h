// Whole files in and out, with errors that name the path. Writing is atomic: a reader sees the old
// file or the new one, never half of it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// The file's bytes. kInvalidArgument when it is larger than `most_bytes`.
Result<std::string> read_file(const std::filesystem::path& path,
                              std::size_t most_bytes = std::size_t{1} << 34);

// Writes an AtomicFile (base/atomic_file.h). On failure `path` is as it was and the temporary file
// is gone.
Status write_file_atomic(const std::filesystem::path& path,
                         std::span<const std::string_view> pieces);
Status write_file_atomic(const std::filesystem::path& path, std::string_view content);

// Makes what was created, renamed or removed in the directory last.
Status sync_directory(const std::filesystem::path& directory);

// Creates the directory and its parents; success when it exists already.
Status create_directories(const std::filesystem::path& path);

// A file's bytes mapped read-only; empty files give an empty span. The file must not shrink while
// it is mapped.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem
