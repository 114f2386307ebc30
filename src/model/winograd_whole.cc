#include "model/matmul.h"
#include "model/winograd_conv.h"

namespace tandem::model::winograd {
namespace {

class WholeConv final : public Layer {
 public:
  WholeConv(PlanContext& context, const Convolution& convolution)
      : all_(convolution),
        grid_(Grid::over(all_.result)),
        back_grid_(Grid::over(all_.image)),
        ins_(all_.image.channels),
        outs_(all_.result.channels) {
    const auto take = [&](std::int64_t floats) {
      return context.workspace().take(static_cast<std::size_t>(floats));
    };
    weights_ = take(kPlaces * ins_ * outs_);
    input_tiles_ = take(in_tiles().floats(ins_));
    output_tiles_ = take(out_tiles().floats(outs_));
    if (context.mode() == Mode::kEvaluate) return;
    weights_gradient_ = take(kPlaces * ins_ * outs_);
    if (all_.in.gradient == nullptr) return;
    gradient_tiles_ = take(Tiles::all(back_grid_, all_.result).floats(outs_));
    back_tiles_ = take(Tiles::all(back_grid_, all_.image).floats(ins_));
  }

  void forward(const Pass& pass) override {
    if (version_ != pass.version)
      transform_weights(outs_, ins_, pass.parameters + all_.weight, weights_);
    version_ = pass.version;
    transform_input(all_.image, in_tiles(), all_.padding, all_.in.value, input_tiles_);
    const std::int64_t tiles = in_tiles().count();
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      multiply(tiles, outs_, ins_, {input_tiles_ + place * in_tiles().matrix(ins_), ins_},
               {weights_ + place * ins_ * outs_, ins_, Transpose::kYes},
               output_tiles_ + place * out_tiles().matrix(outs_), outs_);
    }
    transform_output(all_.result, out_tiles(), output_tiles_, {}, all_.out.value);
  }

  void backward(const Pass& pass) override {
    backward_weights(pass);
    if (all_.in.gradient != nullptr) backward_data();
  }

 private:
  Tiles in_tiles() const { return Tiles::all(grid_, all_.image); }
  Tiles out_tiles() const { return Tiles::all(grid_, all_.result); }

  void backward_weights(const Pass& pass) {
    transform_gradient(all_.result, out_tiles(), all_.out.gradient, output_tiles_);
    const std::int64_t tiles = out_tiles().count();
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      multiply(outs_, ins_, tiles,
               {output_tiles_ + place * out_tiles().matrix(outs_), outs_, Transpose::kYes},
               {input_tiles_ + place * in_tiles().matrix(ins_), ins_},
               weights_gradient_ + place * ins_ * outs_, ins_);
    }
    restore_weights(outs_, ins_, weights_gradient_, pass.gradients + all_.weight);
  }

  // The gradient of the input is a convolution of the output's with the filters turned.
  void backward_data() {
    const Tiles from = Tiles::all(back_grid_, all_.result), to = Tiles::all(back_grid_, all_.image);
    transform_input(all_.result, from, 2 - all_.padding, all_.out.gradient, gradient_tiles_);
    const std::int64_t tiles = from.count();
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      multiply(tiles, ins_, outs_, {gradient_tiles_ + place * from.matrix(outs_), outs_},
               {weights_ + turned(place) * ins_ * outs_, ins_},
               back_tiles_ + place * to.matrix(ins_), ins_);
    }
    transform_output(all_.image, to, back_tiles_, {}, all_.in.gradient);
  }

  const Convolution all_;
  const Grid grid_, back_grid_;
  const std::int64_t ins_, outs_;
  std::uint64_t version_ = 0;  // Of the parameters that were transformed; 0: none yet.

  // input_tiles_ is kept from forward for backward_weights(); output_tiles_ serves both.
  float *weights_, *input_tiles_, *output_tiles_;
  float *weights_gradient_ = nullptr, *gradient_tiles_ = nullptr, *back_tiles_ = nullptr;
};

}  // namespace

LayerPtr make_whole(PlanContext& context, const Convolution& convolution) {
  return std::make_unique<WholeConv>(context, convolution);
}

}  // namespace tandem::model::winograd
