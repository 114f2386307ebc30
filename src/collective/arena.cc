#include "collective/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"

namespace tandem::collective {
namespace {

// So much is there, or nothing works anyway.
constexpr std::size_t kLittle = std::size_t{64} << 20;

Result<std::size_t> size_of_file(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return system_error("look at shared memory", errno);
  return static_cast<std::size_t>(facts.st_size);
}

Status grow(int fd, std::size_t size) {
  TANDEM_ASSIGN(const std::size_t now, size_of_file(fd));
  if (now >= size) return {};
  // A system that is asked for more than it has kills processes, also those of others.
  const auto free = size - now < kLittle ? std::nullopt : available_memory();
  if (free && size - now > *free) {
    return Error(Code::kOutOfSpace,
                 fmt::format("{} of shared memory are needed and {} of memory are free; use a "
                             "smaller model, fewer workers or fewer lanes",
                             human_bytes(size - now), human_bytes(*free)));
  }
  // posix_fallocate extends and never shrinks, so two ranks that grow at once do no harm; it also
  // finds out now that memory is out, where a later write would be a SIGBUS.
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
  if (error != 0)
    return system_error(fmt::format("reserve {} bytes of shared memory", size), error);
  return {};
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Arena> Arena::create() {
  Descriptor file(::memfd_create("tandem-arena", MFD_CLOEXEC));
  if (!file.is_open()) return system_error("create shared memory", errno);
  return Arena(std::move(file));
}

Result<Arena> Arena::adopt(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
    return Error(Code::kInvalidArgument, fmt::format("descriptor {} is no shared memory", fd));
  return Arena(Descriptor(fd));
}

Result<Arena> Arena::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) return system_error(fmt::format("open shared memory {}", path), errno);
  return Arena(std::move(file));
}

std::string Arena::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

Result<std::size_t> Arena::size() const {
  return size_of_file(file_.get());
}

Result<Mapping> Arena::map(std::size_t offset, std::size_t size) const {
  TANDEM_CHECK(offset % kPage == 0);
  if (size == 0) return Mapping();
  TANDEM_TRY(grow(file_.get(), offset + size));
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_.get(),
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED) return system_error("map shared memory", errno);
  // Where the system allows it; it is as good without.
  ::madvise(data, size, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(data), size);
}

}  // namespace tandem::collective
