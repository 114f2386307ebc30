#include "net/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/descriptor.h"
#include "base/file.h"
#include "net/crypto.h"

namespace tandem::net {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string doing(std::string_view verb, const std::filesystem::path& path) {
  return fmt::format("{} the cluster's secret `{}`", verb, path.string());
}

// All of it, from a descriptor, so that what is checked and what is read are one file.
Result<std::string> read_all(int fd, std::size_t most_bytes) {
  std::string text(most_bytes, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_error("write", errno);
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (::fsync(fd) != 0) return system_error("sync", errno);
  return {};
}

}  // namespace

Result<Secret> make_secret() {
  Secret secret;
  TANDEM_TRY(fill_random(secret.bytes));
  return secret;
}

Status save_secret(const std::filesystem::path& path, const Secret& secret) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open() && errno == EEXIST) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: the file exists; every node of its cluster would have to get the "
                             "new one, so remove it first if that is what you want",
                             doing("write", path)));
  }
  if (!file.is_open()) return system_error(doing("write", path), errno);
  std::string text;
  for (const char byte : secret.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  text += '\n';
  if (Status status = write_all(file.get(), text); !status.ok()) {
    ::unlink(path.c_str());
    return std::move(status).error().within(doing("write", path));
  }
  return sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

Result<Secret> load_secret(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(doing("read", path), errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(doing("read", path), errno);
  if (!S_ISREG(status.st_mode))
    return Error(Code::kInvalidArgument, doing("read", path) + ": it is not a plain file");
  if ((status.st_mode & 077) != 0) {
    return Error(Code::kDenied,
                 fmt::format("{}: others than its owner have access to it (mode {:04o}); anybody "
                             "who read it can join the cluster. Run: chmod 600 {}",
                             doing("read", path), status.st_mode & 07777, path.string()));
  }
  Secret secret;
  const std::size_t digits = 2 * secret.bytes.size();
  auto text = read_all(file.get(), digits + 3);
  if (!text.ok()) return std::move(text).error().within(doing("read", path));
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  const Error corrupt(Code::kCorrupt,
                      fmt::format("{}: a secret is {} hexadecimal digits and nothing else",
                                  doing("read", path), digits));
  if (text->size() != digits) return corrupt;
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    const int high = digit((*text)[2 * i]), low = digit((*text)[2 * i + 1]);
    if (high < 0 || low < 0) return corrupt;
    secret.bytes[i] = static_cast<char>(16 * high + low);
  }
  return secret;
}

}  // namespace tandem::net
