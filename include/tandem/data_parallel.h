// Data-parallel training of any torch::nn::Module: each rank runs forward and backward on its own
// part of a batch, and when backward() returns, every parameter's grad() is the mean over ranks.
//
//   Net net;
//   tandem::DataParallel ddp(net, tandem::Group::from_environment());
//   torch::optim::SGD optimizer(net->parameters(), 0.1);
//   ...
//   loss_of(ddp.forward(input), target).backward();  // Gradients are summed while it runs.
//   optimizer.step();                                // The same step, bit by bit, at every rank.
//
// Parameters are float32 on the CPU. Every rank calls backward() equally often. A DataParallel
// belongs to the thread that runs backward, and the group may not be used during it; one
// DataParallel at a time uses a group. docs/library.md has the rest.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tandem/group.h"

namespace tandem {

// What becomes of float32 buffers, such as the running statistics of batch-norm.
enum class Buffers : std::uint8_t {
  // Their change since the last time is averaged together with the gradients, so that all ranks
  // have the same after every backward, from all of the data. forward() never communicates.
  kAverage,
  kLocal,  // After the start they are left alone.
};

struct DataParallelOptions {
  // A bucket is summed as soon as it is complete. The first is small, so that summing starts early;
  // the others are large enough that waiting for each other does not count, and small enough that
  // little is left when backward ends. No tensor is cut, so one larger than this is a bucket alone.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{8} << 20;
  Buffers buffers = Buffers::kAverage;
};

// While it lives, backward() adds up gradients at this rank only.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<int> depth) : depth_(std::move(depth)) { ++*depth_; }
  ~NoSync() {
    if (depth_) --*depth_;
  }
  NoSync(NoSync&&) = default;
  NoSync& operator=(NoSync&&) = delete;

 private:
  std::shared_ptr<int> depth_;
};

namespace detail {

// All that does not depend on the module's type.
class GradientMean {
 public:
  GradientMean(torch::nn::Module& module, Group group, const DataParallelOptions& options);
  ~GradientMean();
  GradientMean(GradientMean&&) = default;
  GradientMean& operator=(GradientMean&&) = delete;

  NoSync no_sync() const;
  std::size_t bucket_count() const;
  // Of the last step: how many had been handed over when backward ended.
  std::size_t buckets_during_backward() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace detail

// `Module` is what holds a module: one made with TORCH_MODULE, or a std::shared_ptr to one.
template <typename Module>
class DataParallel {
 public:
  // Gives every rank the parameters and buffers of rank 0. Throws kInvalidArgument, naming the rank
  // and the tensor, when ranks have different modules. From now on parameters' grad() lie in memory
  // of the group.
  DataParallel(Module module, Group group, const DataParallelOptions& options = {})
      : module_(std::move(module)), gradients_(*module_, std::move(group), options) {}

  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    return module_->forward(std::forward<Inputs>(inputs)...);
  }

  auto* operator->() { return &*module_; }
  Module& module() { return module_; }

  // auto guard = ddp.no_sync(); the first backward() after it averages what has added up.
  NoSync no_sync() const { return gradients_.no_sync(); }

  // For measurements.
  std::size_t bucket_count() const { return gradients_.bucket_count(); }
  std::size_t buckets_during_backward() const { return gradients_.buckets_during_backward(); }

 private:
  Module module_;
  detail::GradientMean gradients_;
};

}  // namespace tandem
