// The vector in which a step is summed. Gradients are tensors that lie in it and keep it alive, and
// with it the group.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>

#include "collective/reducer.h"
#include "library/group_state.h"

namespace tandem::library {

class StepMemory {
 public:
  // Every rank calls it with the same plan. Throws kInvalidArgument when the group has another.
  StepMemory(std::shared_ptr<Group::State> group, collective::ReducePlan plan);
  ~StepMemory();
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  // The next buckets of the step are complete.
  void ready(std::size_t buckets);
  // Waits for the sums and puts the mean over ranks in their place.
  void take_mean();

  float* data() { return reducer_->partial(0).data(); }

 private:
  const std::shared_ptr<Group::State> group_;
  std::unique_ptr<collective::Reducer> reducer_;
};

// The part at `offset` as a tensor of the shape of `like`. Not a view of another tensor, so that
// zero_grad() may detach it.
torch::Tensor part_of(const std::shared_ptr<StepMemory>& memory, std::size_t offset,
                      const torch::Tensor& like);

}  // namespace tandem::library
