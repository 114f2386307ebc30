// A small module for tests of DataParallel, and a batch for it.
#pragma once

#include <torch/torch.h>

#include "tandem/group.h"

namespace tandem::library::testing {

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int hidden = 8) {
    first = register_module("first", torch::nn::Linear(6, hidden));
    second = register_module("second", torch::nn::Linear(hidden, 3));
    spare = register_module("spare", torch::nn::Linear(2, 2));  // Not in forward().
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }

  torch::nn::Linear first{nullptr}, second{nullptr}, spare{nullptr};
};
TORCH_MODULE(Net);

// The same weights for the same seed.
Net make_net(int seed, int hidden = 8);

torch::Tensor inputs(int rows = 12);

torch::Tensor loss_of(const torch::Tensor& output);

// The rows of a rank.
torch::Tensor rows_of(const torch::Tensor& all, const Group& group);

}  // namespace tandem::library::testing
