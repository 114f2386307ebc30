// resnet18's block: relu(bn2(conv2(relu(bn1(conv1(x))))) + skip(x)), where skip is nothing or a 1x1
// convolution with batch-norm.
#include "model/plan_context.h"

namespace tandem::model {
namespace {

class Residual final : public Layer {
 public:
  Residual(PlanContext& context, const arch::Layer& layer, const Activation& in, Activation& out)
      : in_(in) {
    using arch::LayerKind;
    const arch::Layer first{.kind = LayerKind::kConv,
                            .out = layer.out,
                            .stride = layer.stride,
                            .padding = 1,
                            .name = layer.name + ".conv1"};
    const arch::Layer second{
        .kind = LayerKind::kConv, .out = layer.out, .padding = 1, .name = layer.name + ".conv2"};
    Activation convolved, normal, last, sum;
    main_.push_back(make_conv(context, first, in, convolved, Activate::kNone));
    main_.push_back(
        make_batch_norm(context, layer.name + ".bn1", convolved, normal, Activate::kRelu));
    main_.push_back(make_conv(context, second, normal, last, Activate::kNone));
    out = context.make_image(last.shape, last.desc, PlanContext::Gradient::kWanted);
    // Both branches get the gradient of the sum, so all three share its memory.
    main_.push_back(
        make_batch_norm(context, layer.name + ".bn2", last, sum, Activate::kNone, out.gradient));
    main_out_ = sum;
    skip_out_ = in;
    if (layer.stride != 1 || in.shape[1] != layer.out) plan_skip(context, layer, out);
    to_sum_ = Relaid(context.workspace(), skip_out_.desc, out.desc);
    if (skip_.empty()) from_sum_ = Relaid(context.workspace(), out.desc, in.desc);
    out_ = out;
  }

  void forward(const Pass& pass) override {
    for (const LayerPtr& layer : main_) layer->forward(pass);
    for (const LayerPtr& layer : skip_) layer->forward(pass);
    add_relu(main_out_.value, to_sum_.read(skip_out_.value), out_.value, out_.floats);
  }

  void backward(const Pass& pass) override {
    relu_backward(out_.gradient, out_.value, out_.gradient, out_.floats);
    for (auto layer = main_.rbegin(); layer != main_.rend(); ++layer) (*layer)->backward(pass);
    for (auto layer = skip_.rbegin(); layer != skip_.rend(); ++layer) (*layer)->backward(pass);
    if (in_.gradient == nullptr) return;
    const float* through_skip = skip_.empty() ? from_sum_.read(out_.gradient) : skip_gradient_;
    accumulate(in_.gradient, through_skip, in_.floats);
  }

 private:
  void plan_skip(PlanContext& context, const arch::Layer& layer, const Activation& out) {
    const arch::Layer conv{.kind = arch::LayerKind::kConv,
                           .out = layer.out,
                           .kernel = 1,
                           .stride = layer.stride,
                           .name = layer.name + ".downsample.0"};
    Activation from = in_, convolved;
    if (from.gradient != nullptr)
      from.gradient = skip_gradient_ = context.workspace().take(in_.floats);
    skip_.push_back(make_conv(context, conv, from, convolved, Activate::kNone));
    skip_.push_back(make_batch_norm(context, layer.name + ".downsample.1", convolved, skip_out_,
                                    Activate::kNone, out.gradient));
  }

  const Activation in_;
  Activation out_, main_out_, skip_out_;
  float* skip_gradient_ = nullptr;  // What the skip's convolution gives to the input.
  Relaid to_sum_, from_sum_;
  std::vector<LayerPtr> main_, skip_;
};

}  // namespace

LayerPtr make_residual(PlanContext& context, const arch::Layer& layer, const Activation& in,
                       Activation& out) {
  return std::make_unique<Residual>(context, layer, in, out);
}

}  // namespace tandem::model
