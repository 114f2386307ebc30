// Batch-norm through oneDNN, with the ReLU behind it in the same kernel. In training it normalises
// with the lane's own statistics and hands them on, weighted by the lane's share of the batch; in
// evaluation it uses the running ones.
#include "model/plan_context.h"

namespace tandem::model {
namespace {

using dnnl::batch_normalization_backward;
using dnnl::batch_normalization_forward;
using dnnl::normalization_flags;

constexpr float kEpsilon = 1e-5F;

class BatchNorm final : public Layer {
 public:
  BatchNorm(PlanContext& context, const std::string& name, const Activation& in, Activation& out,
            Activate activate, float* gradient)
      : in_(in),
        weight_(context.offset(name + ".weight")),
        bias_(context.offset(name + ".bias")),
        running_mean_(context.offset(name + ".running_mean")),
        running_variance_(context.offset(name + ".running_var")),
        channels_(in.shape[1]) {
    const dnnl::memory::desc layout = in.is_image() ? in.desc : columns_as_image(in);
    const auto wanted =
        gradient == nullptr ? PlanContext::Gradient::kWanted : PlanContext::Gradient::kNone;
    out = in.is_image() ? context.make_image(in.shape, in.desc, wanted)
                        : context.make(in.shape, wanted);
    if (gradient != nullptr) out.gradient = gradient;
    const bool train = context.mode() == Mode::kTrain;
    auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
    if (!train) flags |= normalization_flags::use_global_stats;
    if (activate == Activate::kRelu) flags |= normalization_flags::fuse_norm_relu;
    const auto kind =
        train ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const batch_normalization_forward::primitive_desc forward({kind, layout, kEpsilon, flags},
                                                              engine());
    const dnnl::memory::desc vector = vector_desc(channels_);
    const auto channels = static_cast<std::size_t>(channels_);
    mean_ = context.workspace().take(channels);
    variance_ = context.workspace().take(channels);
    forward_ = Primitive(batch_normalization_forward(forward));
    forward_.bind(DNNL_ARG_SRC, layout, in.value);
    forward_.bind(DNNL_ARG_DST, layout, out.value);
    forward_.bind(DNNL_ARG_SCALE, vector, nullptr);
    forward_.bind(DNNL_ARG_SHIFT, vector, nullptr);
    forward_.bind(DNNL_ARG_MEAN, vector, mean_);
    forward_.bind(DNNL_ARG_VARIANCE, vector, variance_);
    if (!train) return;
    const dnnl::memory::desc mask = forward.workspace_desc();  // Where the ReLU let through.
    float* workspace = mask.get_size() == 0
                           ? nullptr
                           : context.workspace().take(mask.get_size() / sizeof(float) + 1);
    if (workspace != nullptr) forward_.bind_bytes(DNNL_ARG_WORKSPACE, mask, workspace);
    plan_backward(context, forward, layout, flags, out, workspace);
  }

  void forward(const Pass& pass) override {
    forward_.set(DNNL_ARG_SCALE, pass.parameters + weight_);
    forward_.set(DNNL_ARG_SHIFT, pass.parameters + bias_);
    if (pass.mode == Mode::kEvaluate) {
      forward_.set(DNNL_ARG_MEAN, pass.buffers + running_mean_);
      forward_.set(DNNL_ARG_VARIANCE, pass.buffers + running_variance_);
    }
    forward_.execute();
  }

  void backward(const Pass& pass) override {
    hand_on_statistics(pass);
    backward_.set(DNNL_ARG_SCALE, pass.parameters + weight_);
    backward_.set(DNNL_ARG_SHIFT, pass.parameters + bias_);
    backward_.set(DNNL_ARG_DIFF_SCALE, pass.gradients + weight_);
    backward_.set(DNNL_ARG_DIFF_SHIFT, pass.gradients + bias_);
    backward_.execute();
  }

 private:
  // Vectors are images of one pixel with the channels last.
  static dnnl::memory::desc columns_as_image(const Activation& in) {
    return {{in.shape[0], in.shape[1], 1, 1},
            dnnl::memory::data_type::f32,
            dnnl::memory::format_tag::nhwc};
  }

  void plan_backward(PlanContext& context,
                     const batch_normalization_forward::primitive_desc& forward,
                     const dnnl::memory::desc& layout, normalization_flags flags,
                     const Activation& out, float* workspace) {
    const batch_normalization_backward::primitive_desc backward(
        {dnnl::prop_kind::backward, layout, layout, kEpsilon, flags}, engine(), forward);
    // The kernel writes an input gradient in any case.
    float* down = in_.gradient != nullptr ? in_.gradient : context.workspace().take(in_.floats);
    const dnnl::memory::desc vector = vector_desc(channels_);
    backward_ = Primitive(batch_normalization_backward(backward));
    backward_.bind(DNNL_ARG_SRC, layout, in_.value);
    backward_.bind(DNNL_ARG_MEAN, vector, mean_);
    backward_.bind(DNNL_ARG_VARIANCE, vector, variance_);
    backward_.bind(DNNL_ARG_DIFF_DST, layout, out.gradient);
    backward_.bind(DNNL_ARG_SCALE, vector, nullptr);
    backward_.bind(DNNL_ARG_SHIFT, vector, nullptr);
    backward_.bind(DNNL_ARG_DIFF_SRC, layout, down);
    backward_.bind(DNNL_ARG_DIFF_SCALE, vector, nullptr);
    backward_.bind(DNNL_ARG_DIFF_SHIFT, vector, nullptr);
    if (workspace != nullptr)
      backward_.bind_bytes(DNNL_ARG_WORKSPACE, forward.workspace_desc(), workspace);
  }

  void hand_on_statistics(const Pass& pass) const {
    const std::int64_t values =
        in_.is_image() ? in_.shape[0] * in_.shape[2] * in_.shape[3] : in_.shape[0];
    // The running variance is the unbiased one, as in PyTorch; a single value has none.
    const float unbias =
        values > 1 ? static_cast<float>(values) / static_cast<float>(values - 1) : 1.0F;
    for (std::int64_t c = 0; c < channels_; ++c) {
      pass.statistics[running_mean_ + c] = mean_[c] * pass.statistics_weight;
      pass.statistics[running_variance_ + c] = variance_[c] * unbias * pass.statistics_weight;
    }
  }

  const Activation in_;
  const std::int64_t weight_, bias_, running_mean_, running_variance_, channels_;
  float* mean_ = nullptr;
  float* variance_ = nullptr;
  Primitive forward_, backward_;
};

}  // namespace

LayerPtr make_batch_norm(PlanContext& context, const std::string& name, const Activation& in,
                         Activation& out, Activate activate, float* gradient) {
  return std::make_unique<BatchNorm>(context, name, in, out, activate, gradient);
}

}  // namespace tandem::model
