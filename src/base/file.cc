#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/atomic_file.h"
#include "base/descriptor.h"

namespace tandem {
namespace {

Error failed(std::string_view doing, const std::filesystem::path& path, int error_number) {
  return system_error(fmt::format("{} {}", doing, path.string()), error_number);
}

Error too_large(const std::filesystem::path& path, std::size_t most_bytes) {
  return Error(Code::kInvalidArgument, fmt::format("{} is larger than the {} bytes allowed here",
                                                   path.string(), most_bytes));
}

Result<std::string> read_all(int fd, const std::filesystem::path& path, std::size_t expected_bytes,
                             std::size_t most_bytes) {
  std::string content;
  content.reserve(expected_bytes);
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path, errno);
    if (got == 0) return content;
    if (content.size() + static_cast<std::size_t>(got) > most_bytes)
      return too_large(path, most_bytes);
    content.append(chunk, static_cast<std::size_t>(got));
  }
}

// Not blocking: a pipe without a writer would keep open() waiting for ever.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

// What the file system knows of an open file. Pipes and devices are refused: they may never end.
Result<struct stat> regular_file(int fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failed("stat", path, errno);
  if (S_ISDIR(info.st_mode)) return failed("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("{} is not a regular file; copy what it gives into one", path.string()));
  }
  return info;
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t most_bytes) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  if (file.get() < 0) return failed("open", path, errno);
  TANDEM_ASSIGN(const struct stat info, regular_file(file.get(), path));
  // 0 for one of the kernel's files: only reading tells.
  const auto expected_bytes = static_cast<std::size_t>(info.st_size);
  if (expected_bytes > most_bytes) return too_large(path, most_bytes);
  try {
    return read_all(file.get(), path, expected_bytes, most_bytes);
  } catch (const std::bad_alloc&) {
    return failed("read", path, ENOMEM);
  }
}

Status write_file_atomic(const std::filesystem::path& path,
                         std::span<const std::string_view> pieces) {
  std::uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path, bytes));
  for (const std::string_view piece : pieces)
    TANDEM_TRY(file.append(std::as_bytes(std::span(piece))));
  return file.commit();
}

Status write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  const std::string_view pieces[] = {content};
  return write_file_atomic(path, pieces);
}

Status sync_directory(const std::filesystem::path& directory) {
  const Descriptor handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) return failed("open directory", directory, errno);
  if (::fsync(handle.get()) != 0) return failed("sync directory", directory, errno);
  return {};
}

Status create_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return failed("create directory", path, error.value());
  return {};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  if (file.get() < 0) return failed("open", path, errno);
  TANDEM_ASSIGN(const struct stat info, regular_file(file.get(), path));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return failed("map", path, errno);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tandem
