// Max, average and global average pooling through oneDNN, in the layout in which the image comes.
#include "model/plan_context.h"

namespace tandem::model {
namespace {

using dnnl::pooling_backward;
using dnnl::pooling_forward;

class Pool final : public Layer {
 public:
  Pool(PlanContext& context, const arch::Layer& layer, const Activation& in, Activation& out)
      : in_(in) {
    const bool global = layer.kind == arch::LayerKind::kGlobalAvgPool;
    const dnnl::memory::dims window = global ? dnnl::memory::dims{in.shape[2], in.shape[3]}
                                             : dnnl::memory::dims{layer.kernel, layer.kernel};
    const dnnl::memory::dims strides =
        global ? window : dnnl::memory::dims{layer.stride, layer.stride};
    const std::int64_t pad = global ? 0 : layer.padding;
    const dnnl::memory::dims padding = {pad, pad};
    const std::vector<std::int64_t> shape = {in.shape[0], in.shape[1],
                                             (in.shape[2] + 2 * pad - window[0]) / strides[0] + 1,
                                             (in.shape[3] + 2 * pad - window[1]) / strides[1] + 1};
    const auto algorithm = layer.kind == arch::LayerKind::kMaxPool
                               ? dnnl::algorithm::pooling_max
                               : dnnl::algorithm::pooling_avg_include_padding;
    const auto kind = context.mode() == Mode::kTrain ? dnnl::prop_kind::forward_training
                                                     : dnnl::prop_kind::forward_inference;
    const pooling_forward::primitive_desc forward(
        {kind, algorithm, in.desc, any_layout(shape), strides, window, padding, padding}, engine());
    const bool wanted = in.gradient != nullptr;
    out =
        context.make_image(shape, forward.dst_desc(),
                           wanted ? PlanContext::Gradient::kWanted : PlanContext::Gradient::kNone);
    forward_ = Primitive(pooling_forward(forward));
    forward_.bind(DNNL_ARG_SRC, in.desc, in.value);
    forward_.bind(DNNL_ARG_DST, out.desc, out.value);
    const dnnl::memory::desc places = forward.workspace_desc();  // Where each maximum was.
    float* workspace = places.get_size() == 0
                           ? nullptr
                           : context.workspace().take(places.get_size() / sizeof(float) + 1);
    if (workspace != nullptr) forward_.bind_bytes(DNNL_ARG_WORKSPACE, places, workspace);
    if (!wanted) return;
    const pooling_backward::primitive_desc backward(
        {algorithm, in.desc, out.desc, strides, window, padding, padding}, engine(), forward);
    backward_ = Primitive(pooling_backward(backward));
    backward_.bind(DNNL_ARG_DIFF_DST, out.desc, out.gradient);
    backward_.bind(DNNL_ARG_DIFF_SRC, in.desc, in.gradient);
    if (workspace != nullptr) backward_.bind_bytes(DNNL_ARG_WORKSPACE, places, workspace);
  }

  void forward(const Pass&) override { forward_.execute(); }

  void backward(const Pass&) override {
    if (in_.gradient != nullptr) backward_.execute();
  }

 private:
  const Activation in_;
  Primitive forward_, backward_;
};

}  // namespace

LayerPtr make_pool(PlanContext& context, const arch::Layer& layer, const Activation& in,
                   Activation& out) {
  if (LayerPtr faster = make_max_pool(context, layer, in, out)) return faster;
  return std::make_unique<Pool>(context, layer, in, out);
}

}  // namespace tandem::model
