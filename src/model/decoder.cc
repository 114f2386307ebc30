// gpt's block: x + attention(norm1(x)), then y + feed_forward(norm2(y)). The gradient of the
// residual stream is one buffer that every block adds to in place: input and output share it.
#include "model/attention.h"
#include "model/matmul.h"
#include "model/plan_context.h"

namespace tandem::model {
namespace {

// Offsets of a linear part's or norm's weight and bias in the flat vectors.
struct Part {
  Part(const PlanContext& context, const std::string& name)
      : weight(context.offset(name + ".weight")), bias(context.offset(name + ".bias")) {}
  std::int64_t weight, bias;
};

class Decoder final : public Layer {
 public:
  Decoder(PlanContext& context, const arch::Layer& layer, const Activation& in,
          const Activation& out)
      : in_(in),
        out_(out),
        rows_(in.rows()),
        width_(in.columns()),
        shape_{in.shape[0], in.shape[1], layer.heads, in.columns()},
        norm1_(context, layer.name + ".norm1"),
        qkv_(context, layer.name + ".qkv"),
        project_(context, layer.name + ".out"),
        norm2_(context, layer.name + ".norm2"),
        up_(context, layer.name + ".up"),
        down_(context, layer.name + ".down") {
    const auto take = [&](std::int64_t floats) {
      return context.workspace().take(static_cast<std::size_t>(floats));
    };
    for (float** statistic : {&mean1_, &inverse1_, &mean2_, &inverse2_}) *statistic = take(rows_);
    for (float** matrix : {&normal1_, &attended_, &middle_, &normal2_})
      *matrix = take(rows_ * width_);
    joint_ = take(rows_ * 3 * width_);
    probabilities_ = take(shape_.probabilities());
    scratch_ = take(attention_scratch(shape_));
    slope_ = take(rows_ * 4 * width_);
    active_ = take(rows_ * 4 * width_);
    if (context.mode() == Mode::kEvaluate) return;
    narrow_gradient_ = take(rows_ * width_);
    wide_gradient_ = take(rows_ * 4 * width_);
  }

  void forward(const Pass& pass) override {
    layer_norm(in_.value, pass.parameters + norm1_.weight, pass.parameters + norm1_.bias, normal1_,
               mean1_, inverse1_, rows_, width_);
    linear(pass, qkv_, normal1_, width_, joint_, 3 * width_);
    attention(shape_, joint_, probabilities_, attended_, scratch_);
    add_linear(pass, project_, attended_, width_, in_.value, middle_);
    layer_norm(middle_, pass.parameters + norm2_.weight, pass.parameters + norm2_.bias, normal2_,
               mean2_, inverse2_, rows_, width_);
    product(pass, up_, normal2_, width_, slope_, 4 * width_);
    gelu_of_biased(slope_, pass.parameters + up_.bias, active_, rows_, 4 * width_);
    add_linear(pass, down_, active_, 4 * width_, middle_, out_.value);
  }

  void backward(const Pass& pass) override {
    float* stream = out_.gradient;
    linear_backward(pass, down_, active_, 4 * width_, stream, width_, wide_gradient_);
    gelu_of_biased_backward(wide_gradient_, slope_, pass.gradients + up_.bias, rows_, 4 * width_);
    product_backward(pass, up_, normal2_, width_, wide_gradient_, 4 * width_, narrow_gradient_);
    layer_norm_backward(narrow_gradient_, middle_, pass.parameters + norm2_.weight, mean2_,
                        inverse2_, stream, pass.gradients + norm2_.weight,
                        pass.gradients + norm2_.bias, rows_, width_, Write::kAdd);
    linear_backward(pass, project_, attended_, width_, stream, width_, narrow_gradient_);
    attention_backward(shape_, joint_, probabilities_, narrow_gradient_, wide_gradient_, scratch_);
    linear_backward(pass, qkv_, normal1_, width_, wide_gradient_, 3 * width_, narrow_gradient_);
    layer_norm_backward(narrow_gradient_, in_.value, pass.parameters + norm1_.weight, mean1_,
                        inverse1_, stream, pass.gradients + norm1_.weight,
                        pass.gradients + norm1_.bias, rows_, width_, Write::kAdd);
  }

 private:
  // y = x W^T.
  void product(const Pass& pass, const Part& part, const float* x, std::int64_t inputs, float* y,
               std::int64_t outputs) const {
    multiply(rows_, outputs, inputs, {x, inputs},
             {pass.parameters + part.weight, inputs, Transpose::kYes}, y, outputs);
  }

  void linear(const Pass& pass, const Part& part, const float* x, std::int64_t inputs, float* y,
              std::int64_t outputs) const {
    product(pass, part, x, inputs, y, outputs);
    add_bias(y, pass.parameters + part.bias, rows_, outputs, Activate::kNone);
  }

  // y = residual + x W^T + b, width_ columns.
  void add_linear(const Pass& pass, const Part& part, const float* x, std::int64_t inputs,
                  const float* residual, float* y) const {
    copy_with_bias(residual, pass.parameters + part.bias, y, rows_, width_);
    multiply(rows_, width_, inputs, {x, inputs},
             {pass.parameters + part.weight, inputs, Transpose::kYes}, y, width_, 1);
  }

  void linear_backward(const Pass& pass, const Part& part, const float* x, std::int64_t inputs,
                       float* dy, std::int64_t outputs, float* dx) const {
    add_bias_backward(dy, nullptr, pass.gradients + part.bias, rows_, outputs, Activate::kNone);
    product_backward(pass, part, x, inputs, dy, outputs, dx);
  }

  void product_backward(const Pass& pass, const Part& part, const float* x, std::int64_t inputs,
                        const float* dy, std::int64_t outputs, float* dx) const {
    multiply(outputs, inputs, rows_, {dy, outputs, Transpose::kYes}, {x, inputs},
             pass.gradients + part.weight, inputs);
    multiply(rows_, inputs, outputs, {dy, outputs}, {pass.parameters + part.weight, inputs}, dx,
             inputs);
  }

  const Activation in_, out_;
  const std::int64_t rows_, width_;
  const AttentionShape shape_;
  const Part norm1_, qkv_, project_, norm2_, up_, down_;

  float *mean1_, *inverse1_, *mean2_, *inverse2_;
  float *normal1_, *joint_, *probabilities_, *attended_, *middle_, *normal2_, *slope_, *active_;
  float* scratch_;
  float *narrow_gradient_ = nullptr, *wide_gradient_ = nullptr;
};

}  // namespace

LayerPtr make_decoder(PlanContext& context, const arch::Layer& layer, const Activation& in,
                      Activation& out) {
  out = context.make(in.shape, in.gradient == nullptr ? PlanContext::Gradient::kWanted
                                                      : PlanContext::Gradient::kNone);
  if (in.gradient != nullptr) out.gradient = in.gradient;
  return std::make_unique<Decoder>(context, layer, in, out);
}

}  // namespace tandem::model
