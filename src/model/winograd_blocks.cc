#include <omp.h>

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "model/tile_product.h"
#include "model/winograd_conv.h"

namespace tandem::model::winograd {
namespace {

constexpr std::int64_t kFewestChannels = 32;    // With fewer the products are too shallow.
constexpr std::int64_t kMostWeights = 1 << 16;  // 256 KiB: half of a usual second-level cache.
// Floats of the tiles that are at work at a time, besides the weights.
constexpr std::int64_t kTileFloats = 40 << 10;

// What one thread works on.
struct Scratch {
  float *inputs, *outputs;
  float* weights_gradient;  // 16 matrices of [outputs][inputs].
};

class BlockwiseConv final : public Layer {
 public:
  BlockwiseConv(PlanContext& context, const Convolution& convolution)
      : all_(convolution),
        kernel_(*tile_kernel()),
        grid_(Grid::over(all_.result)),
        back_grid_(Grid::over(all_.image)),
        ins_(all_.image.channels),
        outs_(all_.result.channels) {
    const auto take = [&](std::int64_t floats) {
      return context.workspace().take(static_cast<std::size_t>(floats));
    };
    const bool trains = context.mode() == Mode::kTrain;
    weights_ = take(kPlaces * ins_ * outs_);
    panels_ = take(kPlaces * ins_ * outs_);
    if (trains && all_.in.gradient != nullptr) back_panels_ = take(kPlaces * ins_ * outs_);
    const Tiles most = {grid_, 0, tiles_at_once(), 0};
    for (int thread = 0; thread < omp_get_max_threads(); ++thread) {
      threads_.push_back({.inputs = take(most.floats(ins_)),
                          .outputs = take(most.floats(outs_)),
                          .weights_gradient = trains ? take(kPlaces * ins_ * outs_) : nullptr});
    }
  }

  void forward(const Pass& pass) override {
    if (version_ != pass.version) prepare_weights(pass.parameters + all_.weight);
    version_ = pass.version;
    const Finish finish = {.bias = all_.bias < 0 ? nullptr : pass.parameters + all_.bias,
                           .activate = all_.activate};
    for_each_block(grid_, [&](Tiles tiles, const Scratch& scratch) {
      tiles.panel = ins_;
      transform_input(all_.image, tiles, all_.padding, all_.in.value, scratch.inputs);
      multiply(tiles, scratch.inputs, ins_, panels_, scratch.outputs, outs_);
      tiles.panel = outs_;
      transform_output(all_.result, tiles, scratch.outputs, finish, all_.out.value);
    });
  }

  void backward(const Pass& pass) override {
    if (all_.bias >= 0 || all_.activate != Activate::kNone) {
      finish_backward(all_.result, all_.activate, all_.out.value, all_.out.gradient,
                      all_.bias < 0 ? nullptr : pass.gradients + all_.bias);
    }
    backward_weights(pass);
    if (all_.in.gradient != nullptr) backward_data();
  }

 private:
  // Whole tiles of either kernel's rows.
  std::int64_t tiles_at_once() const {
    constexpr std::int64_t kRows = 12;
    return std::max<std::int64_t>(1, kTileFloats / (kPlaces * (ins_ + outs_) * kRows)) * kRows;
  }

  // Calls work(tiles, scratch), in parallel; each thread has neighbouring tiles.
  template <typename Work>
  void for_each_block(const Grid& grid, Work work) {
    const std::int64_t all = grid.tiles(all_.image.samples), step = tiles_at_once();
    const std::int64_t blocks = (all + step - 1) / step, threads = std::ssize(threads_);
    // Shows the thread sanitizer that the end of the loop waits for all: it does not see that of
    // OpenMP.
    std::atomic<std::int64_t> done = 0;
#pragma omp parallel for num_threads(static_cast <int>(threads)) if (threads > 1)
    for (std::int64_t thread = 0; thread < threads; ++thread) {
      for (std::int64_t block = blocks * thread / threads; block < blocks * (thread + 1) / threads;
           ++block) {
        const Tiles tiles = {grid, block * step, std::min(all, (block + 1) * step), 0};
        work(tiles, threads_[static_cast<std::size_t>(thread)]);
      }
      done.fetch_add(1, std::memory_order_release);
    }
    TANDEM_CHECK(done.load(std::memory_order_acquire) == threads);
  }

  void prepare_weights(const float* parameters) {
    transform_weights(outs_, ins_, parameters, weights_);
    const std::int64_t size = ins_ * outs_;
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      pack_right({weights_ + place * size, ins_, Transpose::kYes}, ins_, outs_, kernel_.columns,
                 panels_ + place * size);
      // The gradient of the input is a convolution of the output's with the filters turned.
      if (back_panels_ == nullptr) continue;
      pack_right({weights_ + turned(place) * size, ins_}, outs_, ins_, kernel_.columns,
                 back_panels_ + place * size);
    }
  }

  // For each place: to[tiles][wide] = from[tiles][deep] panels.
  void multiply(const Tiles& tiles, const float* from, std::int64_t deep, const float* panels,
                float* to, std::int64_t wide) const {
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      for (std::int64_t i = 0; i < tiles.count(); i += kernel_.rows) {
        kernel_.multiply({.rows = std::min(kernel_.rows, tiles.count() - i),
                          .columns = wide,
                          .depth = deep,
                          .left = from + place * tiles.matrix(deep) + i * deep,
                          .row_step = deep,
                          .k_step = 1,
                          .panels = panels + place * deep * wide,
                          .to = to + place * tiles.matrix(wide) + i * wide,
                          .to_row_step = wide,
                          .to_column_step = 1});
      }
    }
  }

  void backward_weights(const Pass& pass) {
    for (const Scratch& scratch : threads_)
      std::fill_n(scratch.weights_gradient, kPlaces * ins_ * outs_, 0.0F);
    for_each_block(grid_, [&](Tiles tiles, const Scratch& scratch) {
      tiles.panel = kernel_.columns;
      transform_input(all_.image, tiles, all_.padding, all_.in.value, scratch.inputs);
      tiles.panel = outs_;
      transform_gradient(all_.result, tiles, all_.out.gradient, scratch.outputs);
      add_weights_gradient(tiles, scratch);
    });
    float* sum = threads_[0].weights_gradient;
    for (std::size_t thread = 1; thread < threads_.size(); ++thread) {
      accumulate(sum, threads_[thread].weights_gradient,
                 static_cast<std::size_t>(kPlaces * ins_ * outs_));
    }
    restore_weights(outs_, ins_, sum, pass.gradients + all_.weight);
  }

  // For each place: weights_gradient[outs][ins] += outputs[tiles][outs]' inputs[tiles][ins].
  void add_weights_gradient(const Tiles& tiles, const Scratch& scratch) const {
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      for (std::int64_t i = 0; i < outs_; i += kernel_.rows) {
        kernel_.multiply({.rows = std::min(kernel_.rows, outs_ - i),
                          .columns = ins_,
                          .depth = tiles.count(),
                          .left = scratch.outputs + place * tiles.matrix(outs_) + i,
                          .row_step = 1,
                          .k_step = outs_,
                          .panels = scratch.inputs + place * tiles.matrix(ins_),
                          .to = scratch.weights_gradient + (place * outs_ + i) * ins_,
                          .to_row_step = ins_,
                          .to_column_step = 1,
                          .add = true});
      }
    }
  }

  void backward_data() {
    for_each_block(back_grid_, [&](Tiles tiles, const Scratch& scratch) {
      tiles.panel = outs_;
      transform_input(all_.result, tiles, 2 - all_.padding, all_.out.gradient, scratch.outputs);
      multiply(tiles, scratch.outputs, outs_, back_panels_, scratch.inputs, ins_);
      tiles.panel = ins_;
      transform_output(all_.image, tiles, scratch.inputs, {}, all_.in.gradient);
    });
  }

  const Convolution all_;
  const TileKernel& kernel_;
  const Grid grid_, back_grid_;
  const std::int64_t ins_, outs_;
  std::uint64_t version_ = 0;  // Of the parameters that were transformed; 0: none yet.
  float *weights_, *panels_, *back_panels_ = nullptr;
  std::vector<Scratch> threads_;
};

}  // namespace

bool fits_blocks(std::int64_t inputs, std::int64_t outputs) {
  const TileKernel* const kernel = tile_kernel();
  return kernel != nullptr && inputs >= kFewestChannels && outputs >= kFewestChannels &&
         inputs % kernel->columns == 0 && outputs % kernel->columns == 0 &&
         kPlaces * inputs * outputs <= kMostWeights;
}

LayerPtr make_blockwise(PlanContext& context, const Convolution& convolution) {
  return std::make_unique<BlockwiseConv>(context, convolution);
}

}  // namespace tandem::model::winograd
