// A convolution layer by Winograd's algorithm (model/winograd.h), where that is faster than
// oneDNN's direct kernels.
#include "model/matmul.h"
#include "model/plan_context.h"
#include "model/winograd.h"

namespace tandem::model {
namespace {

using winograd::Grid;
using winograd::Image;
using winograd::kPlaces;

// Measured on AVX2: forward and both backward passes take 60 % of oneDNN's time from 128 channels
// on; with 64 channels the transforms eat the gain.
constexpr std::int64_t kFewestChannels = 128;

// Channels that lie together in the layout, or 0 when it is none of [n][c / block][h][w][block].
std::int64_t block_of(const dnnl::memory::desc& desc, const std::vector<std::int64_t>& shape) {
  const auto is = [&](dnnl::memory::format_tag tag) {
    return desc == dnnl::memory::desc(shape, dnnl::memory::data_type::f32, tag);
  };
  if (is(dnnl::memory::format_tag::nChw8c)) return 8;
  if (is(dnnl::memory::format_tag::nChw16c)) return 16;
  return 0;
}

// Turning a filter by 180 degrees exchanges the first and last row and column of its transform.
std::int64_t turned(std::int64_t place) {
  constexpr std::int64_t kTurned[] = {3, 1, 2, 0};
  return kTurned[place / 4] * 4 + kTurned[place % 4];
}

class WinogradConv final : public Layer {
 public:
  WinogradConv(PlanContext& context, const arch::Layer& layer, const Activation& in,
               const Activation& out, std::int64_t block)
      : in_(in),
        out_(out),
        padding_(layer.padding),
        weight_(context.offset(layer.name + ".weight")),
        image_{in.shape[0], in.shape[1], in.shape[2], in.shape[3], block},
        result_{out.shape[0], out.shape[1], out.shape[2], out.shape[3], block},
        grid_(Grid::over(result_)),
        back_grid_(Grid::over(image_)) {
    const auto take = [&](std::int64_t floats) {
      return context.workspace().take(static_cast<std::size_t>(floats));
    };
    const std::int64_t samples = image_.samples, ins = image_.channels, outs = result_.channels;
    weights_ = take(kPlaces * ins * outs);
    input_tiles_ = take(winograd::tile_floats(grid_, samples, ins));
    output_tiles_ = take(winograd::tile_floats(grid_, samples, outs));
    if (context.mode() == Mode::kEvaluate) return;
    weights_gradient_ = take(kPlaces * ins * outs);
    if (in.gradient == nullptr) return;
    gradient_tiles_ = take(winograd::tile_floats(back_grid_, samples, outs));
    back_tiles_ = take(winograd::tile_floats(back_grid_, samples, ins));
  }

  void forward(const Pass& pass) override {
    const std::int64_t ins = image_.channels, outs = result_.channels,
                       tiles = grid_.tiles(image_.samples);
    if (version_ != pass.version)
      winograd::transform_weights(outs, ins, pass.parameters + weight_, weights_);
    version_ = pass.version;
    winograd::transform_input(image_, grid_, padding_, in_.value, input_tiles_);
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      multiply(tiles, outs, ins, {input_tiles_ + place * tiles * ins, ins},
               {weights_ + place * ins * outs, ins, Transpose::kYes},
               output_tiles_ + place * tiles * outs, outs);
    }
    winograd::transform_output(result_, grid_, output_tiles_, out_.value);
  }

  void backward(const Pass& pass) override {
    backward_weights(pass);
    if (in_.gradient != nullptr) backward_data();
  }

 private:
  void backward_weights(const Pass& pass) {
    const std::int64_t ins = image_.channels, outs = result_.channels,
                       tiles = grid_.tiles(image_.samples);
    winograd::transform_gradient(result_, grid_, out_.gradient, output_tiles_);
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      multiply(outs, ins, tiles, {output_tiles_ + place * tiles * outs, outs, Transpose::kYes},
               {input_tiles_ + place * tiles * ins, ins}, weights_gradient_ + place * ins * outs,
               ins);
    }
    winograd::restore_weights(outs, ins, weights_gradient_, pass.gradients + weight_);
  }

  // The gradient of the input is a convolution of the output's with the filters turned.
  void backward_data() {
    const std::int64_t ins = image_.channels, outs = result_.channels,
                       tiles = back_grid_.tiles(image_.samples);
    winograd::transform_input(result_, back_grid_, 2 - padding_, out_.gradient, gradient_tiles_);
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      multiply(tiles, ins, outs, {gradient_tiles_ + place * tiles * outs, outs},
               {weights_ + turned(place) * ins * outs, ins}, back_tiles_ + place * tiles * ins,
               ins);
    }
    winograd::transform_output(image_, back_grid_, back_tiles_, in_.gradient);
  }

  const Activation in_, out_;
  const std::int64_t padding_, weight_;
  const Image image_, result_;
  const Grid grid_, back_grid_;
  std::uint64_t version_ = 0;  // Of the parameters that were transformed; 0: none yet.

  // input_tiles_ is kept from forward for backward_weights(); output_tiles_ serves both.
  float *weights_, *input_tiles_, *output_tiles_;
  float *weights_gradient_ = nullptr, *gradient_tiles_ = nullptr, *back_tiles_ = nullptr;
};

}  // namespace

LayerPtr make_winograd_conv(PlanContext& context, const arch::Layer& layer, const Activation& in,
                            Activation& out, Activate activate) {
  const bool fits = layer.kernel == 3 && layer.stride == 1 && layer.padding <= 2 &&
                    activate == Activate::kNone && context.offset(layer.name + ".bias") < 0 &&
                    in.shape[1] >= kFewestChannels && layer.out >= kFewestChannels;
  const std::int64_t block = fits ? block_of(in.desc, in.shape) : 0;
  if (block == 0 || layer.out % block != 0 || in.shape[1] % block != 0) return nullptr;
  const std::int64_t shrink = 2 - 2 * layer.padding;
  const std::vector<std::int64_t> shape = {in.shape[0], layer.out, in.shape[2] - shrink,
                                           in.shape[3] - shrink};
  const auto tag =
      block == 8 ? dnnl::memory::format_tag::nChw8c : dnnl::memory::format_tag::nChw16c;
  out = context.make_image(shape, {shape, dnnl::memory::data_type::f32, tag},
                           PlanContext::Gradient::kWanted);
  return std::make_unique<WinogradConv>(context, layer, in, out, block);
}

}  // namespace tandem::model
