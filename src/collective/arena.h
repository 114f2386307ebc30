// Memory that several processes of a host share: an anonymous file (memfd) that grows as parts of
// it are mapped, and is gone with the last process. The one who makes it hands its descriptor to
// children, or tells others the path under which they find it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::collective {

// A mapped part of an arena, zero at first; unmapped with its owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class Arena {
 public:
  static Result<Arena> create();
  // Takes over a descriptor that was inherited. kInvalidArgument when it is none of an arena.
  static Result<Arena> adopt(int fd);
  // Opens another process's arena by its path().
  static Result<Arena> open(const std::string& path);

  int fd() const { return file_.get(); }
  // For processes of the same user on this host.
  std::string path() const;

  // How large it is now.
  Result<std::size_t> size() const;

  // Maps `size` bytes from `offset` on, growing the file if need be. kOutOfSpace when memory is
  // out. REQUIRES: the offset is a multiple of kPage.
  Result<Mapping> map(std::size_t offset, std::size_t size) const;

  static constexpr std::size_t kPage = 4096;

 private:
  explicit Arena(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

}  // namespace tandem::collective
