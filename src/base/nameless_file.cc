#include "base/nameless_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace tandem {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

}  // namespace

Result<NamelessFile> NamelessFile::create(const std::filesystem::path& directory) {
  Descriptor nameless(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (nameless.is_open()) return NamelessFile(directory, std::move(nameless));
  // Not every file system can do that: this one has a name for a moment.
  std::string name = (directory / ".unnamed-XXXXXX").string();
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) return system_error("make a file in " + directory.string(), errno);
  ::unlink(name.c_str());
  return NamelessFile(directory, std::move(file));
}

NamelessFile::NamelessFile(NamelessFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      file_(std::move(other.file_)),
      buffer_(std::move(other.buffer_)),
      written_(other.written_),
      data_(std::exchange(other.data_, nullptr)) {}

NamelessFile::~NamelessFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), written_);
}

Status NamelessFile::append(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() < kBufferBytes ? Status() : flush();
}

Status NamelessFile::flush() {
  std::span<const std::byte> rest = buffer_;
  while (!rest.empty()) {
    const ssize_t wrote = ::write(file_.get(), rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_error("write into " + directory_.string(), errno);
    rest = rest.subspan(static_cast<std::size_t>(wrote));
    written_ += static_cast<std::uint64_t>(wrote);
  }
  buffer_.clear();
  return {};
}

Status NamelessFile::finish() {
  TANDEM_TRY(flush());
  buffer_ = {};
  if (written_ == 0) return {};
  void* const at = ::mmap(nullptr, written_, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (at == MAP_FAILED) return system_error("map a file in " + directory_.string(), errno);
  data_ = static_cast<const std::byte*>(at);
  return {};
}

}  // namespace tandem
