// A model that computes: forward, loss and backward of an arch::Blueprint on flat spans. This
// header is all that the rest of Tandem sees of src/model/; it shows no type of libtorch, oneDNN or
// BLAS.
//
// Parameters and buffers live in two flat vectors owned by the Model, laid out by
// blueprint().slots. Backward writes the gradient into memory of the caller's choice (a lane's
// bucket memory) and says as each part becomes ready, last block first. Bits depend on the kernel
// set and the number of kernel threads, and on nothing else: not on who computes, in which order
// lanes run, or which batches ran before.
//
// Calls fail only when memory is out (kOutOfSpace) or a library refuses (kInternal).
//
// A Model belongs to one thread at a time. Its own code allocates nothing once a batch size has
// been seen, except views for tanh; oneDNN does inside its primitives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "arch/arch.h"
#include "base/result.h"
#include "data/dataset.h"

namespace tandem::model {

// The name of a lane's random numbers (dropout): a pure function of these.
struct LaneKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t lane = 0;
};

// Sums over samples; the caller divides.
struct LossSums {
  double loss = 0;               // Sum over samples of the sample's loss.
  std::int64_t correct = 0;      // Predictions that hit their class.
  std::int64_t predictions = 0;  // How many were judged; 0 where accuracy has no meaning.
  std::int64_t values = 0;       // Samples with numbers for targets whose loss is a squared error.

  void add(const LossSums& other);
};

// Where backward puts what it computes, and who hears how far it is. Each function may be empty.
struct LaneOutput {
  std::span<float> gradients;   // blueprint().parameters floats; overwritten.
  std::span<float> statistics;  // blueprint().buffers floats; overwritten: this lane's share of the
                                // batch statistics.
  // Called when gradients[begin, end) are final.
  std::function<void(std::int64_t begin, std::int64_t end)> ready;
  // Called before forward reads parameters()[begin, end), first block first: they may be filled in
  // then.
  std::function<void(std::int64_t begin, std::int64_t end)> needs = {};
  // Called when forward is over: nothing was written to gradients and statistics before, nor is it
  // after an error.
  std::function<Status()> turns = {};
};

class Model {
 public:
  // `threads` are the kernels' threads, for the whole process.
  static Result<std::unique_ptr<Model>> create(arch::Blueprint blueprint, arch::Loss loss,
                                               std::int64_t threads);
  virtual ~Model() = default;

  virtual const arch::Blueprint& blueprint() const = 0;
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> buffers() = 0;

  // Fills every slot by its Fill, from random numbers named by (seed, the slot's name).
  virtual void initialise(std::uint64_t seed) = 0;

  // Tells that the caller changed parameters(), so that reordered copies of them are made anew.
  virtual void parameters_changed() = 0;

  // One lane's part of a step: gradients are the sum over the batch's samples of
  // d(loss)/d(parameters), times `scale` (one over the global batch); statistics the batch
  // statistics times batch.size * scale.
  virtual Result<LossSums> forward_backward(const data::Batch& batch, float scale, LaneKey key,
                                            const LaneOutput& output) = 0;

  // Loss and hits without dropout and with the running statistics.
  virtual Result<LossSums> evaluate(const data::Batch& batch) = 0;

  // What the model says of each sample, without targets: probabilities of the classes, or values.
  // Valid until the next call; batch.size * targets_per_sample rows of
  // blueprint().interface.outputs.
  virtual Result<std::span<const float>> predict(const data::Batch& batch) = 0;
};

// buffers = (1 - momentum) * buffers + momentum * statistics: what a step does with the lanes'
// summed statistics.
void update_buffers(std::span<float> buffers, std::span<const float> statistics);

}  // namespace tandem::model
