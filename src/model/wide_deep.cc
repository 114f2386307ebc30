// Wide and deep: an mlp on the rows of all embeddings and the dense features (deep), plus one row
// of weights for each id and a linear layer on the dense features (wide).
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "model/plan_context.h"
#include "model/table_rows.h"

namespace tandem::model {
namespace {

class WideDeep final : public Layer {
 public:
  WideDeep(PlanContext& context, const arch::Layer& layer, const Activation& in, Activation& out)
      : in_(in) {
    const arch::Blueprint& blueprint = context.blueprint();
    const std::size_t ids = blueprint.interface.ids.size();
    TANDEM_CHECK(blueprint.tables.size() == 2 * ids);
    for (std::size_t i = 0; i < ids; ++i) {
      embeddings_.emplace_back(blueprint, blueprint.tables[i], in);
      wide_.emplace_back(blueprint, blueprint.tables[ids + i], in);
    }
    find_dense(blueprint.interface);
    const auto dense = static_cast<std::int64_t>(dense_.size());
    const std::int64_t samples = in.shape[0];
    deep_in_ = context.make({samples, static_cast<std::int64_t>(ids) * layer.out + dense},
                            PlanContext::Gradient::kWanted);
    plan_deep(context, layer, out);
    if (dense > 0) {
      dense_in_ = context.make({samples, dense}, PlanContext::Gradient::kNone);
      const arch::Layer linear{
          .kind = arch::LayerKind::kLinear, .out = out.columns(), .bias = false, .name = "wide"};
      dense_layer_ = make_linear(context, linear, dense_in_, dense_out_, Activate::kNone);
    }
    out_ = out;
  }

  void forward(const Pass& pass) override {
    for (TableRows& table : embeddings_) table.find();
    for (TableRows& table : wide_) table.find();
    for (std::int64_t i = 0; i < samples(); ++i) read_sample(pass, i);
    for (const LayerPtr& layer : deep_) layer->forward(pass);
    for (std::int64_t i = 0; i < samples(); ++i) {
      for (const TableRows& table : wide_) {
        accumulate(out_.value + i * out_.columns(), table.row(pass.parameters, i), table.width());
      }
    }
    if (dense_layer_ == nullptr) return;
    dense_layer_->forward(pass);
    accumulate(out_.value, dense_out_.value, out_.floats);
  }

  void backward(const Pass& pass) override {
    for (const TableRows& table : embeddings_) table.clear(pass.gradients);
    for (const TableRows& table : wide_) table.clear(pass.gradients);
    // Before the mlp, which may destroy the gradient.
    for (std::int64_t i = 0; i < samples(); ++i) {
      for (const TableRows& table : wide_) {
        accumulate(table.row(pass.gradients, i), out_.gradient + i * out_.columns(), table.width());
      }
    }
    if (dense_layer_ != nullptr) {
      std::copy_n(out_.gradient, out_.floats, dense_out_.gradient);
      dense_layer_->backward(pass);
    }
    for (auto layer = deep_.rbegin(); layer != deep_.rend(); ++layer) (*layer)->backward(pass);
    for (std::int64_t i = 0; i < samples(); ++i) {
      const float* from = deep_in_.gradient + i * deep_in_.columns();
      for (const TableRows& table : embeddings_) {
        accumulate(table.row(pass.gradients, i), from, table.width());
        from += table.width();
      }
    }
  }

 private:
  std::int64_t samples() const { return in_.shape[0]; }

  void find_dense(const arch::Interface& interface) {
    auto id = interface.ids.begin();
    for (std::int64_t column = 0; column < in_.columns(); ++column) {
      if (id != interface.ids.end() && id->column == column) {
        ++id;
      } else {
        dense_.push_back(column);
      }
    }
  }

  void plan_deep(PlanContext& context, const arch::Layer& layer, Activation& out) {
    Activation flow = deep_in_;
    for (std::size_t i = 0; i <= layer.hidden.size(); ++i) {
      const bool last = i == layer.hidden.size();
      const arch::Layer linear{
          .kind = arch::LayerKind::kLinear,
          .out = last ? context.blueprint().interface.outputs : layer.hidden[i],
          .name = fmt::format("fc{}", i + 1)};
      Activation next;
      deep_.push_back(
          make_linear(context, linear, flow, next, last ? Activate::kNone : Activate::kRelu));
      flow = next;
      if (last || layer.rate == 0) continue;
      const arch::Layer dropout{.kind = arch::LayerKind::kDropout, .rate = layer.rate};
      deep_.push_back(make_elementwise(context, dropout, flow, next));
      flow = next;
    }
    out = flow;
  }

  // Puts the sample's embeddings and dense features side by side for the mlp.
  void read_sample(const Pass& pass, std::int64_t sample) {
    float* to = deep_in_.value + sample * deep_in_.columns();
    for (const TableRows& table : embeddings_) {
      to = std::copy_n(table.row(pass.parameters, sample), table.width(), to);
    }
    const float* const from = in_.value + sample * in_.columns();
    for (std::size_t i = 0; i < dense_.size(); ++i) {
      to[i] = from[dense_[i]];
      dense_in_.value[static_cast<std::size_t>(sample) * dense_.size() + i] = to[i];
    }
  }

  const Activation in_;
  Activation out_, deep_in_, dense_in_, dense_out_;
  std::vector<std::int64_t> dense_;  // The inputs that are quantities.
  std::vector<TableRows> embeddings_, wide_;
  std::vector<LayerPtr> deep_;
  LayerPtr dense_layer_;  // Null when there are no dense features.
};

}  // namespace

LayerPtr make_wide_deep(PlanContext& context, const arch::Layer& layer, const Activation& in,
                        Activation& out) {
  return std::make_unique<WideDeep>(context, layer, in, out);
}

}  // namespace tandem::model
