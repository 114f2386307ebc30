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
