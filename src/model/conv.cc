// Convolutions through oneDNN, in whatever layouts it likes best. Weights lie plain in the flat
// vector and are copied into the kernel's layout when they changed; the ReLU behind a convolution
// is part of its kernel.
#include "model/plan_context.h"

namespace tandem::model {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;

struct Geometry {
  dnnl::memory::dims strides, padding;
  dnnl::memory::desc weights;  // Plain.
};

class Conv final : public Layer {
 public:
  Conv(PlanContext& context, const arch::Layer& layer, const Activation& in, Activation& out,
       Activate activate)
      : in_(in),
        weight_(context.offset(layer.name + ".weight")),
        bias_(context.offset(layer.name + ".bias")),
        activate_(activate) {
    const std::int64_t height = (in.shape[2] + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    const std::int64_t width = (in.shape[3] + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    const std::vector<std::int64_t> shape = {in.shape[0], layer.out, height, width};
    const dnnl::memory::dims kernel = {layer.out, in.shape[1], layer.kernel, layer.kernel};
    const Geometry geometry = {
        {layer.stride, layer.stride}, {layer.padding, layer.padding}, plain_image(kernel)};
    plan_forward(context, geometry, shape, out);
    if (context.mode() == Mode::kTrain) {
      plan_backward_weights(context, geometry);
      if (in_.gradient != nullptr) plan_backward_data(context, geometry);
    }
  }

  void forward(const Pass& pass) override {
    const float* plain = pass.parameters + weight_;
    const bool changed = version_ != pass.version;
    version_ = pass.version;
    forward_.set(DNNL_ARG_WEIGHTS,
                 changed ? forward_weights_.read(plain) : forward_weights_.reread(plain));
    forward_.set(DNNL_ARG_SRC, source_.read(in_.value));
    if (bias_ >= 0) forward_.set(DNNL_ARG_BIAS, pass.parameters + bias_);
    forward_.execute();
  }

  void backward(const Pass& pass) override {
    if (activate_ == Activate::kRelu)
      relu_backward(out_.gradient, out_.value, out_.gradient, out_.floats);
    float* gradient = pass.gradients + weight_;
    backward_weights_.set(DNNL_ARG_SRC, weights_source_.read(in_.value));
    backward_weights_.set(DNNL_ARG_DIFF_DST, weights_up_.read(out_.gradient));
    backward_weights_.set(DNNL_ARG_DIFF_WEIGHTS, weights_gradient_.to_write(gradient));
    if (bias_ >= 0) backward_weights_.set(DNNL_ARG_DIFF_BIAS, pass.gradients + bias_);
    backward_weights_.execute();
    weights_gradient_.written(gradient);
    if (in_.gradient == nullptr) return;
    const float* plain = pass.parameters + weight_;
    const bool changed = backward_version_ != pass.version;
    backward_version_ = pass.version;
    backward_data_.set(DNNL_ARG_WEIGHTS,
                       changed ? backward_kernel_.read(plain) : backward_kernel_.reread(plain));
    backward_data_.set(DNNL_ARG_DIFF_DST, data_up_.read(out_.gradient));
    backward_data_.set(DNNL_ARG_DIFF_SRC, down_.to_write(in_.gradient));
    backward_data_.execute();
    down_.written(in_.gradient);
  }

 private:
  void plan_forward(PlanContext& context, const Geometry& geometry,
                    const std::vector<std::int64_t>& shape, Activation& out) {
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto kind = context.mode() == Mode::kTrain ? dnnl::prop_kind::forward_training
                                                     : dnnl::prop_kind::forward_inference;
    // Few channels: kernels for the first layer read plain images.
    const bool first = in_.shape[1] <= 4;
    const auto source = first ? plain_image(in_.shape) : any_layout(in_.shape);
    const auto weights = any_layout(geometry.weights.dims());
    const auto bias = bias_ < 0 ? dnnl::memory::desc() : vector_desc(shape[1]);
    dnnl::primitive_attr attributes;
    if (activate_ == Activate::kRelu) {
      dnnl::post_ops operations;
      operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
      attributes.set_post_ops(operations);
    }
    hint_ = convolution_forward::primitive_desc(
        {kind, algorithm, source, weights, bias, any_layout(shape), geometry.strides,
         geometry.padding, geometry.padding},
        attributes, engine());
    out = context.make_image(shape, hint_.dst_desc(), PlanContext::Gradient::kWanted);
    out_ = out;
    source_ = Relaid(context.workspace(), in_.desc, hint_.src_desc());
    forward_weights_ = Relaid(context.workspace(), geometry.weights, hint_.weights_desc());
    forward_ = Primitive(convolution_forward(hint_));
    forward_.bind(DNNL_ARG_SRC, hint_.src_desc(), nullptr);
    forward_.bind(DNNL_ARG_WEIGHTS, hint_.weights_desc(), nullptr);
    if (bias_ >= 0) forward_.bind(DNNL_ARG_BIAS, hint_.bias_desc(), nullptr);
    forward_.bind(DNNL_ARG_DST, out.desc, out.value);
  }

  void plan_backward_weights(PlanContext& context, const Geometry& geometry) {
    const auto bias = bias_ < 0 ? dnnl::memory::desc() : vector_desc(out_.shape[1]);
    const auto source = in_.shape[1] <= 4 ? plain_image(in_.shape) : any_layout(in_.shape);
    const convolution_backward_weights::primitive_desc primitive(
        {dnnl::algorithm::convolution_direct, source, any_layout(geometry.weights.dims()), bias,
         any_layout(out_.shape), geometry.strides, geometry.padding, geometry.padding},
        engine(), hint_);
    weights_source_ = Relaid(context.workspace(), in_.desc, primitive.src_desc());
    weights_up_ = Relaid(context.workspace(), out_.desc, primitive.diff_dst_desc());
    weights_gradient_ =
        Relaid(context.workspace(), geometry.weights, primitive.diff_weights_desc());
    backward_weights_ = Primitive(convolution_backward_weights(primitive));
    backward_weights_.bind(DNNL_ARG_SRC, primitive.src_desc(), nullptr);
    backward_weights_.bind(DNNL_ARG_DIFF_DST, primitive.diff_dst_desc(), nullptr);
    backward_weights_.bind(DNNL_ARG_DIFF_WEIGHTS, primitive.diff_weights_desc(), nullptr);
    if (bias_ >= 0) backward_weights_.bind(DNNL_ARG_DIFF_BIAS, primitive.diff_bias_desc(), nullptr);
  }

  void plan_backward_data(PlanContext& context, const Geometry& geometry) {
    const convolution_backward_data::primitive_desc primitive(
        {dnnl::algorithm::convolution_direct, any_layout(in_.shape),
         any_layout(geometry.weights.dims()), any_layout(out_.shape), geometry.strides,
         geometry.padding, geometry.padding},
        engine(), hint_);
    backward_kernel_ = Relaid(context.workspace(), geometry.weights, primitive.weights_desc());
    data_up_ = Relaid(context.workspace(), out_.desc, primitive.diff_dst_desc());
    down_ = Relaid(context.workspace(), in_.desc, primitive.diff_src_desc());
    backward_data_ = Primitive(convolution_backward_data(primitive));
    backward_data_.bind(DNNL_ARG_WEIGHTS, primitive.weights_desc(), nullptr);
    backward_data_.bind(DNNL_ARG_DIFF_DST, primitive.diff_dst_desc(), nullptr);
    backward_data_.bind(DNNL_ARG_DIFF_SRC, primitive.diff_src_desc(), nullptr);
  }

  const Activation in_;
  Activation out_;
  const std::int64_t weight_, bias_;
  const Activate activate_;
  std::uint64_t version_ = 0,
                backward_version_ = 0;  // Of the parameters that were copied; 0: none yet.

  convolution_forward::primitive_desc hint_;
  Primitive forward_, backward_weights_, backward_data_;
  Relaid source_, forward_weights_;
  Relaid weights_source_, weights_up_, weights_gradient_;
  Relaid backward_kernel_, data_up_, down_;
};

}  // namespace

LayerPtr make_conv(PlanContext& context, const arch::Layer& layer, const Activation& in,
                   Activation& out, Activate activate) {
  if (LayerPtr faster = make_winograd_conv(context, layer, in, out, activate)) return faster;
  return std::make_unique<Conv>(context, layer, in, out, activate);
}

}  // namespace tandem::model
