#include "ps/block_pool.h"

#include <sys/mman.h>

#include "base/check.h"

namespace tandem::ps {
namespace {

// Of x86-64 and of most others; elsewhere the alignment merely does not help.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// What is left of a slab behind its last block is less than a 64th of it.
constexpr std::size_t kLeastBlocks = 64;

}  // namespace

BlockPool::BlockPool(std::size_t block_bytes)
    : block_bytes_(block_bytes),
      slab_bytes_((kLeastBlocks * block_bytes + kHugePage - 1) / kHugePage * kHugePage),
      cut_(slab_bytes_) {
  TANDEM_CHECK(block_bytes > 0 && block_bytes % 16 == 0);
}

std::byte* BlockPool::take() {
  if (!free_.empty()) {
    std::byte* block = free_.back();
    free_.pop_back();
    return block;
  }
  if (slab_bytes_ - cut_ < block_bytes_) {
    auto* slab = static_cast<std::byte*>(std::aligned_alloc(kHugePage, slab_bytes_));
    if (slab == nullptr) return nullptr;
    slabs_.emplace_back(slab);
    ::madvise(slab, slab_bytes_, MADV_HUGEPAGE);  // A wish: refused, the pages are small.
    cut_ = 0;
  }
  std::byte* block = slabs_.back().get() + cut_;
  cut_ += block_bytes_;
  return block;
}

std::size_t BlockPool::bytes() const {
  return slabs_.size() * slab_bytes_ + slabs_.capacity() * sizeof(slabs_[0]) +
         free_.capacity() * sizeof(free_[0]);
}

}  // namespace tandem::ps
