// Memory in blocks of one size, cut from slabs that lie on huge pages where the kernel has them. A
// block that is given back is used again; slabs go back to the system with the pool. So a table
// that frees one old part for every new one needs no more than it holds, and leaves no holes.
//
// Owns its blocks. Belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

namespace tandem::ps {

class BlockPool {
 public:
  // REQUIRES: block_bytes is a multiple of 16, and positive.
  explicit BlockPool(std::size_t block_bytes);

  // A block at a multiple of 16, its bytes unspecified; null when the system has no memory left.
  std::byte* take();
  // REQUIRES: the block came from take() and was not given back since.
  void give_back(std::byte* block) { free_.push_back(block); }

  std::size_t block_bytes() const { return block_bytes_; }
  // All that the pool holds, in use or not, with its own lists.
  std::size_t bytes() const;

 private:
  struct Free {
    void operator()(std::byte* slab) const { std::free(slab); }
  };

  // Constant after construction.
  std::size_t block_bytes_;
  std::size_t slab_bytes_;

  std::vector<std::unique_ptr<std::byte, Free>> slabs_;
  std::size_t cut_ = 0;           // Bytes of the last slab that are blocks by now.
  std::vector<std::byte*> free_;  // Given back.
};

}  // namespace tandem::ps
