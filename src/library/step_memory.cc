#include "library/step_memory.h"

#include "library/failure.h"

namespace tandem::library {

StepMemory::StepMemory(std::shared_ptr<Group::State> group, collective::ReducePlan plan)
    : group_(std::move(group)) {
  group_->calls.run([&] {
    if (group_->has_reducer) refuse("the group has a DataParallel already; it takes one at a time");
    reducer_ = demand(group_->group.make_reducer(std::move(plan), group_->deadline()));
    group_->has_reducer = true;
  });
}

StepMemory::~StepMemory() {
  if (reducer_ == nullptr) return;
  reducer_ = nullptr;
  group_->has_reducer = false;
}

void StepMemory::ready(std::size_t buckets) {
  demand(reducer_->ready(buckets));
}

void StepMemory::take_mean() {
  const std::span<const float> sum = demand(reducer_->finish(group_->deadline()));
  if (group_->group.size() == 1) return;  // The sum is where it should be.
  const auto count = static_cast<std::int64_t>(sum.size());
  torch::Tensor to = torch::from_blob(data(), {count});
  const torch::Tensor from = torch::from_blob(const_cast<float*>(sum.data()), {count});
  torch::div_out(to, from, torch::scalar_tensor(group_->group.size()));  // On libtorch's threads.
}

torch::Tensor part_of(const std::shared_ptr<StepMemory>& memory, std::size_t offset,
                      const torch::Tensor& like) {
  // As autograd wants it: in the parameter's own layout if that has no holes.
  const torch::Tensor plain =
      like.is_non_overlapping_and_dense() ? like : torch::empty(like.sizes());
  return torch::from_blob(
      memory->data() + offset, like.sizes(), plain.strides(), [memory](void*) {},
      torch::dtype(torch::kFloat));
}

}  // namespace tandem::library
