// A parameter whose gradient lies in the memory in which a step is summed, so that autograd adds
// it up right there.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

#include "library/step_memory.h"
#include "library/tensors.h"

namespace tandem::library {

class ParameterGradient {
 public:
  explicit ParameterGradient(NamedTensor parameter) : parameter_(std::move(parameter)) {}

  const std::string& name() const { return parameter_.name; }

  void lie_in(const std::shared_ptr<StepMemory>& memory, std::size_t offset) {
    own_ = part_of(memory, offset, parameter_.tensor);
  }

  // `call` runs in every backward that reaches the parameter, when its gradient is complete.
  void on_arrival(std::function<void()> call);

  // Makes the gradient lie in our memory, wherever it lies now: zero_grad() may have removed it,
  // and autograd then puts a tensor of its own there. None at all counts as zero.
  void adopt();

  // Gives the parameter a gradient of its own, so that ours can go.
  void give_back();

 private:
  NamedTensor parameter_;
  torch::Tensor own_;
  // Keeps the hook: the parameter itself knows its accumulator only weakly.
  std::shared_ptr<torch::autograd::Node> accumulator_;
};

}  // namespace tandem::library
