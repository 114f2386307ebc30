// A buffer of a module, such as a running mean, whose changes are averaged over ranks together with
// the gradients of a step. The change and not the value, so that a constant keeps its bits.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "library/step_memory.h"

namespace tandem::library {

class BufferMean {
 public:
  // `buffer` has the same value at every rank.
  explicit BufferMean(torch::Tensor buffer)
      : buffer_(std::move(buffer)), agreed_(buffer_.detach().clone()) {}

  void lie_in(const std::shared_ptr<StepMemory>& memory, std::size_t offset) {
    change_ = part_of(memory, offset, buffer_);
  }

  // Writes the change since the last step.
  void fill();
  // The change is now the mean over ranks.
  void take();

 private:
  torch::Tensor buffer_;
  torch::Tensor agreed_;  // What all ranks had after the last step.
  torch::Tensor change_;
};

}  // namespace tandem::library
