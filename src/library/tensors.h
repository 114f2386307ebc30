// The tensors of a module as DataParallel needs them.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "tandem/group.h"

namespace tandem::library {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

// Each once, though a module may have it under several names. Throws kInvalidArgument when one is
// not on the CPU, or a trained one not float32.
struct Tensors {
  explicit Tensors(const torch::nn::Module& module);

  // One line for each, for comparison between ranks.
  std::vector<std::string> describe() const;
  // Gives every rank the values of rank 0.
  void broadcast(Group& group) const;

  std::vector<NamedTensor> trained;
  std::vector<NamedTensor> frozen;
  std::vector<NamedTensor> buffers;
};

}  // namespace tandem::library
