#include "library/parameter_gradient.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include "library/failure.h"

namespace tandem::library {
namespace {

class Hook final : public torch::autograd::FunctionPostHook {
 public:
  explicit Hook(std::function<void()> call) : call_(std::move(call)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  const std::function<void()> call_;
};

}  // namespace

void ParameterGradient::on_arrival(std::function<void()> call) {
  accumulator_ = torch::autograd::impl::grad_accumulator(parameter_.tensor);
  accumulator_->add_post_hook(std::make_unique<Hook>(std::move(call)));
}

void ParameterGradient::adopt() {
  const torch::NoGradGuard no_grad;
  torch::Tensor& grad = parameter_.tensor.mutable_grad();
  if (grad.is_same(own_)) return;
  if (!grad.defined()) {
    own_.zero_();
  } else if (grad.requires_grad()) {
    refuse("DataParallel cannot keep a graph of gradients (create_graph)");
  } else if (grad.sizes() != own_.sizes() || grad.scalar_type() != torch::kFloat) {
    refuse(fmt::format("parameter `{}` has changed its shape or type", name()));
  } else {
    own_.copy_(grad.is_sparse() ? grad.to_dense() : grad);
  }
  grad = own_;
}

void ParameterGradient::give_back() {
  torch::Tensor& grad = parameter_.tensor.mutable_grad();
  if (grad.is_same(own_)) grad = grad.clone();
}

}  // namespace tandem::library
