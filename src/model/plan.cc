#include "model/plan.h"

#include <algorithm>

#include "model/plan_context.h"

namespace tandem::model {
namespace {

using arch::LayerKind;

// Whether a layer of this kind does the ReLU that follows it by itself.
bool takes_relu(LayerKind kind) {
  return kind == LayerKind::kLinear || kind == LayerKind::kConv || kind == LayerKind::kBatchNorm;
}

LayerPtr make_layer(PlanContext& context, const arch::Layer& layer, const Activation& in,
                    Activation& out, Activate activate) {
  switch (layer.kind) {
    case LayerKind::kLinear:
      return make_linear(context, layer, in, out, activate);
    case LayerKind::kConv:
      return make_conv(context, layer, in, out, activate);
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
    case LayerKind::kGlobalAvgPool:
      return make_pool(context, layer, in, out);
    case LayerKind::kBatchNorm:
      return make_batch_norm(context, layer.name, in, out, activate);
    case LayerKind::kLayerNorm:
      return make_layer_norm(context, layer.name, in, out);
    case LayerKind::kFlatten:
      return make_flatten(context, in, out);
    case LayerKind::kEmbedding:
      return make_embedding(context, layer, in, out);
    case LayerKind::kResidual:
      return make_residual(context, layer, in, out);
    case LayerKind::kDecoder:
      return make_decoder(context, layer, in, out);
    case LayerKind::kFactors:
      return make_factors(context, in, out);
    case LayerKind::kWideDeep:
      return make_wide_deep(context, layer, in, out);
    case LayerKind::kRelu:
    case LayerKind::kGelu:
    case LayerKind::kTanh:
    case LayerKind::kDropout:
      return make_elementwise(context, layer, in, out);
  }
  TANDEM_CHECK(false);
}

// Whether the model reads its inputs once, forward, and once more for a gradient, as they are.
bool reads_batch(const arch::Blueprint& blueprint) {
  for (const arch::Block& block : blueprint.blocks) {
    for (const arch::Layer& layer : block.layers)
      if (layer.kind != LayerKind::kFlatten) return layer.kind == LayerKind::kLinear;
  }
  return false;
}

}  // namespace

Plan::Plan(const arch::Blueprint& blueprint, std::int64_t batch, Mode mode) {
  PlanContext context(blueprint, workspace_, batch, mode);
  input_.shape = blueprint.interface.input_shape;
  input_.shape.insert(input_.shape.begin(), batch);
  if (reads_batch(blueprint)) {
    if (input_.is_image()) input_.desc = plain_image(input_.shape);
    input_.floats = 1;
    for (const std::int64_t size : input_.shape) input_.floats *= static_cast<std::size_t>(size);
  } else if (!blueprint.interface.tokens) {
    input_ = input_.is_image() ? context.make_image(input_.shape, plain_image(input_.shape),
                                                    PlanContext::Gradient::kNone)
                               : context.make(input_.shape, PlanContext::Gradient::kNone);
  }
  Activation flow = input_;
  for (const arch::Block& block : blueprint.blocks) {
    PlannedBlock planned;
    for (std::size_t i = 0; i < block.layers.size(); ++i) {
      const arch::Layer& layer = block.layers[i];
      const bool fuse = takes_relu(layer.kind) && i + 1 < block.layers.size() &&
                        block.layers[i + 1].kind == LayerKind::kRelu;
      Activation out;
      planned.layers.push_back(
          make_layer(context, layer, flow, out, fuse ? Activate::kRelu : Activate::kNone));
      flow = out;
      if (fuse) ++i;
      // A global pool leaves one pixel: from here on it is a vector.
      if (layer.kind == LayerKind::kGlobalAvgPool) {
        planned.layers.push_back(make_flatten(context, flow, out));
        flow = out;
      }
    }
    blocks_.push_back(std::move(planned));
  }
  output_ = flow;
}

void Plan::forward(const Pass& pass, const std::function<void(std::size_t block)>& next) {
  TANDEM_CHECK(pass.batch->inputs.size() >= input_.floats);
  if (input_.value != nullptr) {
    std::copy_n(pass.batch->inputs.data(), input_.floats, input_.value);
  }
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    if (next) next(block);
    for (const LayerPtr& layer : blocks_[block].layers) layer->forward(pass);
  }
}

void Plan::backward(const Pass& pass, const std::function<void(std::size_t block)>& done) {
  for (std::size_t block = blocks_.size(); block-- > 0;) {
    auto& layers = blocks_[block].layers;
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) (*layer)->backward(pass);
    done(block);
  }
}

}  // namespace tandem::model
