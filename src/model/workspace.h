// Memory that a plan takes once and keeps: 64-byte aligned pieces of a few large, huge-page
// friendly chunks. Pieces are zero at first. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tandem::model {

class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Throws std::bad_alloc when memory is out; translated at the Model's edge.
  float* take(std::size_t floats);

 private:
  struct Chunk {
    std::byte* data;
    std::size_t size;
  };
  std::vector<Chunk> chunks_;
  std::size_t used_ = 0;  // Of the last chunk.
};

}  // namespace tandem::model
