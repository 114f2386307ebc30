// A blueprint laid out for one batch size: layers in order, with all the memory they need. Internal
// to src/model/.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "arch/arch.h"
#include "model/layer.h"
#include "model/workspace.h"

namespace tandem::model {

class Plan {
 public:
  // Throws what oneDNN and the workspace throw.
  Plan(const arch::Blueprint& blueprint, std::int64_t batch, Mode mode);

  // Runs all layers, on a copy of the batch unless they read it where it lies: then it must outlive
  // backward(). Calls `next(block)` before those of each block.
  void forward(const Pass& pass, const std::function<void(std::size_t block)>& next = {});
  // REQUIRES: output().gradient was filled after forward(). Calls `done(block)` as each block's
  // gradients are final.
  void backward(const Pass& pass, const std::function<void(std::size_t block)>& done);

  const Activation& output() const { return output_; }

 private:
  struct PlannedBlock {
    std::vector<LayerPtr> layers;
  };

  Workspace workspace_;
  Activation input_, output_;
  std::vector<PlannedBlock> blocks_;
};

}  // namespace tandem::model
