// What a layer needs to know while a plan for one batch size is laid out. Internal to src/model/.
#pragma once

#include <string>

#include "arch/arch.h"
#include "model/kernels.h"
#include "model/layer.h"
#include "model/onednn.h"
#include "model/workspace.h"

namespace tandem::model {

class PlanContext {
 public:
  PlanContext(const arch::Blueprint& blueprint, Workspace& workspace, std::int64_t batch, Mode mode)
      : blueprint_(blueprint), workspace_(workspace), batch_(batch), mode_(mode) {}

  std::int64_t batch() const { return batch_; }
  Mode mode() const { return mode_; }
  Workspace& workspace() { return workspace_; }
  const arch::Blueprint& blueprint() const { return blueprint_; }

  // Where a slot begins in its flat vector; -1 when there is no such slot.
  std::int64_t offset(const std::string& name) const;

  enum class Gradient : std::uint8_t { kNone, kWanted };
  // An output; its gradient has memory only in training, and when it is wanted.
  Activation make(std::vector<std::int64_t> shape, Gradient gradient);
  Activation make_image(std::vector<std::int64_t> shape, const dnnl::memory::desc& desc,
                        Gradient gradient);

  // Different for every layer of a plan, and the same in every plan of the model.
  std::uint64_t next_layer_number() { return layer_number_++; }

 private:
  const arch::Blueprint& blueprint_;
  Workspace& workspace_;
  const std::int64_t batch_;
  const Mode mode_;
  std::uint64_t layer_number_ = 0;
};

// The makers: each reads `in`, fills `out` and returns the layer between them.
LayerPtr make_linear(PlanContext&, const arch::Layer&, const Activation& in, Activation& out,
                     Activate activate);
LayerPtr make_conv(PlanContext&, const arch::Layer&, const Activation& in, Activation& out,
                   Activate activate);
// Null when Winograd's algorithm does not fit or would not be faster; make_conv() then does it.
LayerPtr make_winograd_conv(PlanContext&, const arch::Layer&, const Activation& in, Activation& out,
                            Activate activate);
LayerPtr make_pool(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);
// Null when it does not fit; make_pool() then does it.
LayerPtr make_max_pool(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);
// `gradient`, if given, is the memory in which the output's gradient will be.
LayerPtr make_batch_norm(PlanContext&, const std::string& name, const Activation& in,
                         Activation& out, Activate activate, float* gradient = nullptr);
LayerPtr make_elementwise(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);
LayerPtr make_flatten(PlanContext&, const Activation& in, Activation& out);
LayerPtr make_layer_norm(PlanContext&, const std::string& name, const Activation& in,
                         Activation& out);
LayerPtr make_embedding(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);
LayerPtr make_residual(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);
LayerPtr make_decoder(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);
LayerPtr make_factors(PlanContext&, const Activation& in, Activation& out);
LayerPtr make_wide_deep(PlanContext&, const arch::Layer&, const Activation& in, Activation& out);

}  // namespace tandem::model
