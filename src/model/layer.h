// What the planner builds a model from: layers that run forward and backward by themselves on
// memory that was laid out beforehand. Internal to src/model/; one thread.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"

namespace tandem::model {

enum class Mode : std::uint8_t { kTrain, kEvaluate };

// One pass over one batch: what changes from call to call.
struct Pass {
  Mode mode = Mode::kEvaluate;
  const data::Batch* batch = nullptr;
  const float* parameters = nullptr;
  const float* buffers = nullptr;
  float* gradients = nullptr;   // Training only.
  float* statistics = nullptr;  // Training only.
  float statistics_weight = 0;  // This lane's share of the global batch.
  LaneKey key;
  std::uint64_t version = 0;  // Grows when the parameters change.
};

// What flows between two layers. Images may lie in a blocked layout that oneDNN chose (`desc`);
// everything else is row-major in the order of `shape`.
struct Activation {
  std::vector<std::int64_t> shape;  // With the batch first: {n, c, h, w}, {n, f}, {n, t, w}.
  dnnl::memory::desc desc;          // Images only.
  std::size_t floats = 0;           // Of `value`, padding of the layout included.
  float* value = nullptr;           // nullptr: the batch's inputs, which are read where they lie.
  float* gradient = nullptr;        // nullptr: nobody needs it.

  bool is_image() const { return shape.size() == 4; }
  const float* read(const Pass& pass) const {
    return value != nullptr ? value : pass.batch->inputs.data();
  }
  std::int64_t columns() const { return shape.back(); }
  // Vectors that a linear layer or norm sees: everything but the last dimension.
  std::int64_t rows() const;
};

class Layer {
 public:
  virtual ~Layer() = default;
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Reads its input's value, writes its output's.
  virtual void forward(const Pass& pass) = 0;
  // Reads its output's gradient (and may destroy it), writes its input's gradient, if that has one,
  // and its parameters'.
  virtual void backward(const Pass& pass) = 0;
};

using LayerPtr = std::unique_ptr<Layer>;

}  // namespace tandem::model
