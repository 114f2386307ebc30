#include "cluster/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace tandem::cluster {

Result<LineFile> LineFile::create(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error(fmt::format("create {}", path.string()), errno);
  return LineFile(path, std::move(file));
}

Result<LineFile> LineFile::reopen(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error(fmt::format("open {}", path.string()), errno);
  off_t size = ::lseek(file.get(), 0, SEEK_END);
  for (char last = '\0'; size > 0; --size) {
    if (::pread(file.get(), &last, 1, size - 1) != 1)
      return system_error(fmt::format("read {}", path.string()), errno);
    if (last == '\n') break;
  }
  if (size < 0 || ::ftruncate(file.get(), size) != 0)
    return system_error(fmt::format("shorten {}", path.string()), errno);
  return LineFile(path, std::move(file), size);
}

Status LineFile::append(std::string_view line) {
  buffer_.assign(line);
  buffer_ += '\n';
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::pwrite(file_.get(), rest.data(), rest.size(),
                                     size_ + static_cast<off_t>(buffer_.size() - rest.size()));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // The file was whole before; if this fails too, the reader sees a last line without its
      // newline.
      [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), size_);
      return system_error(fmt::format("write {}", path_.string()), error);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  size_ += static_cast<off_t>(buffer_.size());
  return {};
}

}  // namespace tandem::cluster
