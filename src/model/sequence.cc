// Layers for sequences: embedding of characters and places, and layer-norm.
#include <cstring>

#include "model/plan_context.h"

namespace tandem::model {
namespace {

class Embedding final : public Layer {
 public:
  Embedding(const Activation& out, std::int64_t table, std::int64_t position,
            std::int64_t vocabulary)
      : out_(out), table_(table), position_(position), vocabulary_(vocabulary) {}

  void forward(const Pass& pass) override {
    embed(pass.batch->tokens.data(), pass.parameters + table_,
          position_ < 0 ? nullptr : pass.parameters + position_, out_.value, out_.rows(), places(),
          out_.columns());
  }

  void backward(const Pass& pass) override {
    const auto width = static_cast<std::size_t>(out_.columns());
    std::memset(pass.gradients + table_, 0,
                static_cast<std::size_t>(vocabulary_) * width * sizeof(float));
    if (position_ >= 0) {
      std::memset(pass.gradients + position_, 0,
                  static_cast<std::size_t>(places()) * width * sizeof(float));
    }
    for (std::int64_t i = 0; i < out_.rows(); ++i) {
      const float* up = out_.gradient + i * out_.columns();
      const std::int64_t token = pass.batch->tokens[static_cast<std::size_t>(i)];
      accumulate(pass.gradients + table_ + token * out_.columns(), up, width);
      if (position_ >= 0)
        accumulate(pass.gradients + position_ + i % places() * out_.columns(), up, width);
    }
  }

 private:
  std::int64_t places() const { return out_.shape[1]; }

  const Activation out_;
  const std::int64_t table_, position_, vocabulary_;
};

class LayerNorm final : public Layer {
 public:
  LayerNorm(PlanContext& context, const std::string& name, const Activation& in,
            const Activation& out)
      : in_(in),
        out_(out),
        weight_(context.offset(name + ".weight")),
        bias_(context.offset(name + ".bias")),
        mean_(context.workspace().take(static_cast<std::size_t>(in.rows()))),
        inverse_(context.workspace().take(static_cast<std::size_t>(in.rows()))),
        // Parameters need their gradients even when the input does not.
        down_(in.gradient != nullptr || context.mode() == Mode::kEvaluate
                  ? in.gradient
                  : context.workspace().take(in.floats)) {}

  void forward(const Pass& pass) override {
    layer_norm(in_.value, pass.parameters + weight_, pass.parameters + bias_, out_.value, mean_,
               inverse_, in_.rows(), in_.columns());
  }

  void backward(const Pass& pass) override {
    layer_norm_backward(out_.gradient, in_.value, pass.parameters + weight_, mean_, inverse_, down_,
                        pass.gradients + weight_, pass.gradients + bias_, in_.rows(), in_.columns(),
                        Write::kReplace);
  }

 private:
  const Activation in_, out_;
  const std::int64_t weight_, bias_;
  float* const mean_;
  float* const inverse_;
  float* const down_;
};

}  // namespace

LayerPtr make_embedding(PlanContext& context, const arch::Layer& layer, const Activation& in,
                        Activation& out) {
  out = context.make({in.shape[0], in.shape[1], layer.out}, PlanContext::Gradient::kWanted);
  return std::make_unique<Embedding>(out, context.offset(layer.name + ".weight"),
                                     context.offset(layer.name + ".position"),
                                     context.blueprint().interface.vocabulary);
}

LayerPtr make_layer_norm(PlanContext& context, const std::string& name, const Activation& in,
                         Activation& out) {
  out = context.make(in.shape, PlanContext::Gradient::kWanted);
  return std::make_unique<LayerNorm>(context, name, in, out);
}

}  // namespace tandem::model
