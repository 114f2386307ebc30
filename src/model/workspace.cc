#include "model/workspace.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace tandem::model {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kChunkBytes = std::size_t{32} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

}  // namespace

float* Workspace::take(std::size_t floats) {
  const std::size_t bytes = round_up(std::max<std::size_t>(floats, 1) * sizeof(float), kAlignment);
  if (chunks_.empty() || used_ + bytes > chunks_.back().size) {
    const std::size_t size = round_up(std::max(bytes, kChunkBytes), kHugePage);
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data, size, MADV_HUGEPAGE);  // Only advice: fewer TLB misses where it is taken.
    chunks_.push_back({static_cast<std::byte*>(data), size});
    used_ = 0;
  }
  auto* piece = reinterpret_cast<float*>(chunks_.back().data + used_);
  used_ += bytes;
  return piece;
}

Workspace::~Workspace() {
  for (const Chunk& chunk : chunks_) ::munmap(chunk.data, chunk.size);
}

}  // namespace tandem::model
