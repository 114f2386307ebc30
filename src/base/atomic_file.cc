#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// So much is written before the disk is set to work on it: enough for it to be efficient. Measured
// with 500 MB: 8 and 16 MiB are equally fast, 32 and 64 MiB slower.
constexpr std::size_t kWriteBackBytes = std::size_t{8} << 20;

Error failed(std::string_view doing, const fs::path& path, int error_number) {
  return system_error(fmt::format("{} {}", doing, path.string()), error_number);
}

}  // namespace

Result<AtomicFile> AtomicFile::create(fs::path path, std::uint64_t bytes) {
  // Unique among processes and threads, so that two writers of one path cannot mix their bytes.
  static std::atomic<unsigned> number{0};
  const fs::path temporary =
      fmt::format("{}.tmp-{}-{}", path.string(), ::getpid(), number.fetch_add(1));
  AtomicFile made;
  made.file_ =
      Descriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!made.file_.is_open()) return failed("create", path, errno);
  made.path_ = std::move(path);
  made.temporary_ = temporary;
  // Besides, room in one piece is written faster. File systems that cannot do it say so otherwise.
  if (bytes >= kWriteBackBytes &&
      ::fallocate(made.file_.get(), 0, 0, static_cast<off_t>(bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return failed("write", made.path_, errno);
  }
  return made;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, fs::path())),
      file_(std::move(other.file_)),
      written_(other.written_),
      begun_(other.begun_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(file_.get(), bytes.data(), std::min(bytes.size(), kWriteBackBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    written_ += static_cast<std::uint64_t>(written);
    if (written_ - begun_ >= kWriteBackBytes) {
      // Only a hint: commit() syncs whatever a file system makes of it.
      ::sync_file_range(file_.get(), static_cast<off64_t>(begun_),
                        static_cast<off64_t>(written_ - begun_), SYNC_FILE_RANGE_WRITE);
      begun_ = written_;
    }
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) return failed("sync", path_, errno);
  file_.close();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("rename onto", path_, errno);
  temporary_.clear();
  return sync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

}  // namespace tandem
