// A file that is written piece by piece and gets its name when all of it is on the disk: a reader
// sees the old file or the new one, never half of it. The disk is set to work while pieces still
// come, so that the sync at the end has little left to wait for. Belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem {

class AtomicFile {
 public:
  // A temporary file beside `path`. When it is known how long it will be, a full disk refuses it at
  // once; 0: it is not.
  static Result<AtomicFile> create(std::filesystem::path path, std::uint64_t bytes);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Removes the temporary file unless it got its name.
  ~AtomicFile();

  Status append(std::span<const std::byte> bytes);

  // Syncs it, renames it over `path` and syncs the directory. The last call, also when it fails.
  Status commit();

 private:
  AtomicFile() = default;

  // Errors name `path_`, for which the temporary file stands. The latter is "" when it is not ours
  // to remove.
  std::filesystem::path path_, temporary_;
  Descriptor file_;
  std::uint64_t written_ = 0;
  std::uint64_t begun_ = 0;  // Bytes that the disk was told to write.
};

}  // namespace tandem
