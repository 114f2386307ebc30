// Layers that look at one element at a time: ReLU, GELU, tanh, dropout.
#include "base/rng.h"
#include "model/plan_context.h"

namespace tandem::model {
namespace {

class Elementwise : public Layer {
 public:
  Elementwise(const Activation& in, const Activation& out) : in_(in), out_(out) {}

 protected:
  const Activation in_, out_;
};

class Relu final : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const Pass&) override { relu(in_.value, out_.value, in_.floats); }
  void backward(const Pass&) override {
    if (in_.gradient != nullptr) relu_backward(out_.gradient, out_.value, in_.gradient, in_.floats);
  }
};

class Gelu final : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const Pass&) override { gelu(in_.value, out_.value, in_.floats); }
  void backward(const Pass&) override {
    if (in_.gradient != nullptr) gelu_backward(out_.gradient, in_.value, in_.gradient, in_.floats);
  }
};

class Tanh final : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const Pass&) override { hyperbolic_tangent(in_.value, out_.value, in_.floats); }
  void backward(const Pass&) override {
    if (in_.gradient != nullptr)
      hyperbolic_tangent_backward(out_.gradient, out_.value, in_.gradient, in_.floats);
  }
};

// Which elements are dropped is a pure function of (seed, step, lane, layer, index). In evaluation
// nothing is.
class Dropout final : public Elementwise {
 public:
  Dropout(const Activation& in, const Activation& out, double rate, std::uint64_t number)
      : Elementwise(in, out), rate_(rate), number_(number) {}

  void forward(const Pass& pass) override {
    const double rate = pass.mode == Mode::kTrain ? rate_ : 0;
    dropout(in_.value, out_.value, in_.floats, rate, key(pass));
  }

  void backward(const Pass& pass) override {
    if (in_.gradient != nullptr) dropout(out_.gradient, in_.gradient, in_.floats, rate_, key(pass));
  }

 private:
  std::uint64_t key(const Pass& pass) const {
    return Rng({pass.key.seed, static_cast<std::uint64_t>(pass.key.step),
                static_cast<std::uint64_t>(pass.key.lane), number_})
        .at(0);
  }

  const double rate_;
  const std::uint64_t number_;
};

// Rearranges images into rows. Plain images are left where they are.
class Flatten final : public Layer {
 public:
  Flatten(const Activation& in, const Activation& out)
      : in_(in),
        out_(out),
        forward_(in.desc, plain_image(in.shape)),
        backward_(plain_image(in.shape), in.desc) {}

  void forward(const Pass&) override { forward_.run(in_.value, out_.value); }
  void backward(const Pass&) override {
    if (in_.gradient != nullptr) backward_.run(out_.gradient, in_.gradient);
  }

 private:
  const Activation in_, out_;
  Reorder forward_, backward_;
};

class Nothing final : public Layer {
 public:
  void forward(const Pass&) override {}
  void backward(const Pass&) override {}
};

Activation like(PlanContext& context, const Activation& in) {
  const auto gradient =
      in.gradient != nullptr ? PlanContext::Gradient::kWanted : PlanContext::Gradient::kNone;
  return in.is_image() ? context.make_image(in.shape, in.desc, gradient)
                       : context.make(in.shape, gradient);
}

}  // namespace

LayerPtr make_elementwise(PlanContext& context, const arch::Layer& layer, const Activation& in,
                          Activation& out) {
  out = like(context, in);
  switch (layer.kind) {
    case arch::LayerKind::kRelu:
      return std::make_unique<Relu>(in, out);
    case arch::LayerKind::kGelu:
      return std::make_unique<Gelu>(in, out);
    case arch::LayerKind::kTanh:
      return std::make_unique<Tanh>(in, out);
    case arch::LayerKind::kDropout:
      return std::make_unique<Dropout>(in, out, layer.rate, context.next_layer_number());
    default:
      break;
  }
  TANDEM_CHECK(false);
}

LayerPtr make_flatten(PlanContext& context, const Activation& in, Activation& out) {
  const std::int64_t columns = in.is_image() ? in.shape[1] * in.shape[2] * in.shape[3]
                                             : in.rows() / in.shape[0] * in.columns();
  if (!in.is_image() || in.desc == plain_image(in.shape)) {
    out = in;
    out.shape = {in.shape[0], columns};
    return std::make_unique<Nothing>();
  }
  out = context.make({in.shape[0], columns}, in.gradient != nullptr ? PlanContext::Gradient::kWanted
                                                                    : PlanContext::Gradient::kNone);
  return std::make_unique<Flatten>(in, out);
}

}  // namespace tandem::model
