#include "model/winograd_conv.h"

namespace tandem::model {
namespace {

// Measured on AVX2: forward and both backward passes take 60 % of oneDNN's time from 128 channels
// on; with fewer the transforms of a whole batch eat the gain.
constexpr std::int64_t kManyChannels = 128;

}  // namespace

LayerPtr make_winograd_conv(PlanContext& context, const arch::Layer& layer, const Activation& in,
                            Activation& out, Activate activate) {
  const std::int64_t bias = context.offset(layer.name + ".bias"), inputs = in.shape[1];
  const bool blockwise = winograd::fits_blocks(inputs, layer.out);
  const bool whole = activate == Activate::kNone && bias < 0 && inputs >= kManyChannels &&
                     layer.out >= kManyChannels;
  const bool fits =
      layer.kernel == 3 && layer.stride == 1 && layer.padding <= 2 && (blockwise || whole);
  const std::int64_t block = fits ? block_of(in.desc, in.shape) : 0;
  if (block == 0 || layer.out % block != 0) return nullptr;
  const std::int64_t shrink = 2 - 2 * layer.padding;
  const std::vector<std::int64_t> shape = {in.shape[0], layer.out, in.shape[2] - shrink,
                                           in.shape[3] - shrink};
  out = context.make_image(shape, blocked_desc(shape, block), PlanContext::Gradient::kWanted);
  const winograd::Convolution convolution = {.in = in,
                                             .out = out,
                                             .image = image_of(in.shape, block),
                                             .result = image_of(out.shape, block),
                                             .padding = layer.padding,
                                             .weight = context.offset(layer.name + ".weight"),
                                             .bias = bias,
                                             .activate = activate};
  return blockwise ? winograd::make_blockwise(context, convolution)
                   : winograd::make_whole(context, convolution);
}

}  // namespace tandem::model
