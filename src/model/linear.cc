// y = activate(x W^T + b) on the rows of a matrix.
#include "model/matmul.h"
#include "model/plan_context.h"

namespace tandem::model {
namespace {

class Linear final : public Layer {
 public:
  Linear(const Activation& in, const Activation& out, std::int64_t weight, std::int64_t bias,
         Activate activate)
      : in_(in), out_(out), weight_(weight), bias_(bias), activate_(activate) {}

  void forward(const Pass& pass) override {
    multiply(rows(), outputs(), inputs(), {in_.read(pass), inputs()},
             {pass.parameters + weight_, inputs(), Transpose::kYes}, out_.value, outputs());
    add_bias(out_.value, bias_ < 0 ? nullptr : pass.parameters + bias_, rows(), outputs(),
             activate_);
  }

  void backward(const Pass& pass) override {
    add_bias_backward(out_.gradient, out_.value, bias_ < 0 ? nullptr : pass.gradients + bias_,
                      rows(), outputs(), activate_);
    multiply(outputs(), inputs(), rows(), {out_.gradient, outputs(), Transpose::kYes},
             {in_.read(pass), inputs()}, pass.gradients + weight_, inputs());
    if (in_.gradient == nullptr) return;
    multiply(rows(), inputs(), outputs(), {out_.gradient, outputs()},
             {pass.parameters + weight_, inputs()}, in_.gradient, inputs());
  }

 private:
  std::int64_t rows() const { return in_.rows(); }
  std::int64_t inputs() const { return in_.columns(); }
  std::int64_t outputs() const { return out_.columns(); }

  const Activation in_, out_;
  const std::int64_t weight_, bias_;  // Offsets into the flat vectors; bias_ < 0: none.
  const Activate activate_;
};

}  // namespace

LayerPtr make_linear(PlanContext& context, const arch::Layer& layer, const Activation& in,
                     Activation& out, Activate activate) {
  std::vector<std::int64_t> shape = in.shape;
  shape.back() = layer.out;
  out = context.make(shape, PlanContext::Gradient::kWanted);
  return std::make_unique<Linear>(in, out, context.offset(layer.name + ".weight"),
                                  context.offset(layer.name + ".bias"), activate);
}

}  // namespace tandem::model
