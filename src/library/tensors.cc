#include "library/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "library/failure.h"

namespace tandem::library {
namespace {

void check(const NamedTensor& named) {
  const torch::Tensor& tensor = named.tensor;
  if (!tensor.device().is_cpu() || tensor.layout() != torch::kStrided)
    refuse(fmt::format("tensor `{}` is not a dense tensor on the CPU", named.name));
  if (tensor.requires_grad() && tensor.scalar_type() != torch::kFloat) {
    refuse(fmt::format("parameter `{}` is {}; DataParallel averages gradients of float32 only",
                       named.name, c10::toString(tensor.scalar_type())));
  }
}

}  // namespace

Tensors::Tensors(const torch::nn::Module& module) {
  std::set<const void*> seen;
  const auto add = [&](const auto& item, std::vector<NamedTensor>& to) {
    NamedTensor named{item.key(), item.value()};
    if (!named.tensor.defined() || !seen.insert(named.tensor.unsafeGetTensorImpl()).second) return;
    check(named);
    to.push_back(std::move(named));
  };
  for (const auto& item : module.named_parameters())
    add(item, item.value().requires_grad() ? trained : frozen);
  for (const auto& item : module.named_buffers()) add(item, buffers);
  if (trained.empty()) refuse("the module has no parameters that require a gradient");
}

std::vector<std::string> Tensors::describe() const {
  std::vector<std::string> lines;
  const auto add = [&](const char* kind, const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& named : tensors) {
      lines.push_back(fmt::format("{} {} [{}] {}", kind, named.name,
                                  fmt::join(named.tensor.sizes(), ", "),
                                  c10::toString(named.tensor.scalar_type())));
    }
  };
  add("parameter", trained);
  add("frozen parameter", frozen);
  add("buffer", buffers);
  return lines;
}

void Tensors::broadcast(Group& group) const {
  if (group.size() == 1) return;
  const torch::NoGradGuard no_grad;
  for (const auto* tensors : {&trained, &frozen, &buffers}) {
    for (const NamedTensor& named : *tensors) {
      const torch::Tensor values = named.tensor.detach().contiguous();
      group.broadcast(std::span(static_cast<std::uint8_t*>(values.data_ptr()), values.nbytes()));
      // data(): not a change that autograd should know of.
      if (values.data_ptr() != named.tensor.data_ptr()) named.tensor.data().copy_(values);
    }
  }
}

}  // namespace tandem::library
