#include "arch/assembler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

namespace tandem::arch {
namespace {

// Above this a model would not fit any machine that Tandem runs on; it also keeps products from
// overflowing.
constexpr std::int64_t kMostFloats = std::int64_t{1} << 36;

Error misfit(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t result = 1;
  for (std::int64_t size : shape) result *= size;
  return result;
}

std::string show(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

// The size behind a window that slides over `size`; 0 or less when it does not fit.
std::int64_t slide(std::int64_t size, const Layer& layer, std::int64_t stride) {
  const std::int64_t room = size + 2 * layer.padding - layer.kernel;
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

Assembler::Assembler(const Interface& interface, Init init, std::set<std::string> names_given)
    : init_(init),
      tokens_(interface.tokens),
      shape_(interface.input_shape),
      names_given_(std::move(names_given)),
      names_used_(32, 0) {
  blueprint_.interface = interface;
}

void Assembler::begin_block(std::string name) {
  const auto slot = static_cast<std::int64_t>(blueprint_.slots.size());
  blueprint_.blocks.push_back({std::move(name), {}, shape_, slot, slot});
}

Status Assembler::add(Layer layer) {
  TANDEM_CHECK(!blueprint_.blocks.empty());
  if (layer.name.empty()) layer.name = next_name(layer.kind);
  if (layer.init == Init::kDefault) layer.init = init_;
  if (tokens_ && layer.kind != LayerKind::kEmbedding) {
    return misfit(fmt::format("a {} layer cannot read characters; start with an embedding layer",
                              to_string(layer.kind)));
  }
  const std::size_t first_slot = blueprint_.slots.size();
  Status status;
  switch (layer.kind) {
    case LayerKind::kLinear:
      status = add_linear(layer);
      break;
    case LayerKind::kConv:
      status = add_conv(layer);
      break;
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
      status = add_pool(layer);
      break;
    case LayerKind::kGlobalAvgPool:
      status = need_rank(layer, 3, "it must stand before flatten");
      if (status.ok()) shape_ = {shape_[0]};
      break;
    case LayerKind::kRelu:
    case LayerKind::kGelu:
    case LayerKind::kTanh:
      break;
    case LayerKind::kDropout:
      if (!(layer.rate >= 0 && layer.rate < 1)) status = misfit("dropout's rate must be in [0, 1)");
      break;
    case LayerKind::kBatchNorm:
      status = add_batch_norm(layer);
      break;
    case LayerKind::kLayerNorm:
      status = add_layer_norm(layer);
      break;
    case LayerKind::kFlatten:
      shape_ = {product(shape_)};
      break;
    case LayerKind::kEmbedding:
      status = add_embedding(layer);
      break;
    case LayerKind::kResidual:
      status = add_residual(layer);
      break;
    case LayerKind::kDecoder:
      status = add_decoder(layer);
      break;
    case LayerKind::kFactors:
      status = add_factors(layer);
      break;
    case LayerKind::kWideDeep:
      status = add_wide_deep(layer);
      break;
  }
  TANDEM_TRY(std::move(status));
  TANDEM_TRY(own_slots_since(first_slot, layer));
  if (blueprint_.parameters > kMostFloats || product(shape_) > kMostFloats) {
    return misfit("the model is too large: over 2^36 numbers");
  }
  blueprint_.blocks.back().layers.push_back(std::move(layer));
  blueprint_.blocks.back().last_slot = static_cast<std::int64_t>(blueprint_.slots.size());
  return {};
}

Result<Blueprint> Assembler::finish() && {
  const std::int64_t outputs = blueprint_.interface.outputs;
  std::vector<std::int64_t> wanted = {outputs};
  if (blueprint_.interface.tokens) wanted = {blueprint_.interface.input_shape[0], outputs};
  if (shape_ != wanted) {
    return misfit(fmt::format(
        "the last layer gives {} numbers a sample but the data has {} classes or values; end with "
        "{{ kind = \"linear\" }}, whose size is then inferred",
        show(shape_), show(wanted)));
  }
  if (blueprint_.parameters == 0) return misfit("the model has no parameters to train");
  return std::move(blueprint_);
}

Status Assembler::need_rank(const Layer& layer, std::size_t rank, std::string_view advice) const {
  if (shape_.size() == rank) return {};
  return misfit(fmt::format("a {} layer needs {} but gets {}; {}", to_string(layer.kind),
                            rank == 3 ? "an image (channels x height x width)" : "a vector",
                            show(shape_), advice));
}

Status Assembler::add_linear(Layer& layer) {
  if (shape_.size() > 2) {
    return misfit(fmt::format(
        "a linear layer needs a vector but gets {}; put a flatten layer before it", show(shape_)));
  }
  if (layer.out == 0) layer.out = blueprint_.interface.outputs;
  if (layer.out < 0 || layer.out > kMostFloats / std::max<std::int64_t>(1, shape_.back())) {
    return misfit(fmt::format("a linear layer cannot have {} outputs", layer.out));
  }
  const std::int64_t in = shape_.back();
  add_weight(layer.name + ".weight", {layer.out, in}, in, layer.out, layer.init);
  if (layer.bias) add_bias(layer.name + ".bias", layer.out, in, layer.init);
  shape_.back() = layer.out;
  return {};
}

Status Assembler::add_conv(Layer& layer) {
  TANDEM_TRY(need_rank(layer, 3, "convolutions come before flatten and linear layers"));
  constexpr std::int64_t kMostChannels = 1 << 16;
  if (layer.out < 1 || layer.out > kMostChannels)
    return misfit("a conv layer needs `out`, its channels, from 1 to 65536");
  if (layer.kernel < 1 || layer.stride < 1 || layer.padding < 0) {
    return misfit("a conv layer needs kernel >= 1, stride >= 1 and padding >= 0");
  }
  if (layer.padding >= layer.kernel)
    return misfit("a conv layer's padding must be smaller than its kernel");
  const std::int64_t channels = shape_[0];
  const std::int64_t height = slide(shape_[1], layer, layer.stride);
  const std::int64_t width = slide(shape_[2], layer, layer.stride);
  if (height < 1 || width < 1) {
    return misfit(
        fmt::format("a {0}x{0} kernel does not fit an image of {1}", layer.kernel, show(shape_)));
  }
  const std::int64_t window = layer.kernel * layer.kernel;
  add_weight(layer.name + ".weight", {layer.out, channels, layer.kernel, layer.kernel},
             channels * window, layer.out * window, layer.init);
  if (layer.bias) add_bias(layer.name + ".bias", layer.out, channels * window, layer.init);
  shape_ = {layer.out, height, width};
  return {};
}

Status Assembler::add_pool(Layer& layer) {
  TANDEM_TRY(need_rank(layer, 3, "pools come before flatten and linear layers"));
  if (layer.stride == 0) layer.stride = layer.kernel;
  if (layer.kernel < 1 || layer.stride < 1 || layer.padding < 0 ||
      2 * layer.padding > layer.kernel) {
    return misfit("a pool needs kernel >= 1, stride >= 0 and padding of at most half the kernel");
  }
  const std::int64_t height = slide(shape_[1], layer, layer.stride);
  const std::int64_t width = slide(shape_[2], layer, layer.stride);
  if (height < 1 || width < 1) {
    return misfit(
        fmt::format("a {0}x{0} window does not fit an image of {1}", layer.kernel, show(shape_)));
  }
  shape_ = {shape_[0], height, width};
  return {};
}

Status Assembler::add_batch_norm(const Layer& layer) {
  if (shape_.size() == 2) return misfit("batchnorm does not work on sequences; use layernorm");
  add_batch_norm_slots(layer.name, shape_[0]);
  return {};
}

Status Assembler::add_layer_norm(const Layer& layer) {
  if (shape_.size() > 2)
    return misfit("layernorm works on vectors and sequences; use batchnorm for images");
  add_norm_slots(layer.name, shape_.back());
  return {};
}

Status Assembler::add_embedding(const Layer& layer) {
  if (!tokens_)
    return misfit(
        "an embedding layer reads characters; it must come first, on data of source = \"text\"");
  if (layer.out < 1 || layer.out > 1 << 20)
    return misfit("an embedding layer needs `out`, its width");
  const Init init = layer.init == Init::kDefault ? Init::kNormal : layer.init;
  add_weight(layer.name + ".weight", {blueprint_.interface.vocabulary, layer.out}, layer.out,
             layer.out, init);
  if (layer.position) {
    add_slot(layer.name + ".position", SlotKind::kParameter, {shape_[0], layer.out}, Fill::kZeros);
  }
  shape_ = {shape_[0], layer.out};
  tokens_ = false;
  return {};
}

Status Assembler::add_residual(const Layer& layer) {
  TANDEM_TRY(need_rank(layer, 3, "residual blocks come before flatten"));
  const std::int64_t in = shape_[0], out = layer.out;
  const Init init = layer.init == Init::kDefault ? Init::kKaiming : layer.init;
  add_weight(layer.name + ".conv1.weight", {out, in, 3, 3}, in * 9, out * 9, init);
  add_batch_norm_slots(layer.name + ".bn1", out);
  add_weight(layer.name + ".conv2.weight", {out, out, 3, 3}, out * 9, out * 9, init);
  add_batch_norm_slots(layer.name + ".bn2", out);
  if (layer.stride != 1 || in != out) {
    add_weight(layer.name + ".downsample.0.weight", {out, in, 1, 1}, in, out, init);
    add_batch_norm_slots(layer.name + ".downsample.1", out);
  }
  shape_ = {out, (shape_[1] - 1) / layer.stride + 1, (shape_[2] - 1) / layer.stride + 1};
  return {};
}

Status Assembler::add_decoder(const Layer& layer) {
  const std::int64_t width = shape_.back();
  if (shape_.size() != 2) {
    return misfit(fmt::format(
        "a decoder layer needs a sequence but gets {}; start with an embedding layer, on text",
        show(shape_)));
  }
  if (layer.heads < 1 || width % layer.heads != 0) {
    return misfit(fmt::format("{} heads do not divide a width of {}", layer.heads, width));
  }
  const Init init = layer.init == Init::kDefault ? Init::kNormal : layer.init;
  add_norm_slots(layer.name + ".norm1", width);
  add_linear_slots(layer.name + ".qkv", width, 3 * width, init);
  add_linear_slots(layer.name + ".out", width, width, init);
  add_norm_slots(layer.name + ".norm2", width);
  add_linear_slots(layer.name + ".up", width, 4 * width, init);
  add_linear_slots(layer.name + ".down", 4 * width, width, init);
  return {};
}

std::string Assembler::next_name(LayerKind kind) {
  std::int64_t& number = names_used_[static_cast<std::size_t>(kind)];
  std::string name;
  do name = fmt::format("{}{}", to_string(kind), ++number);
  while (names_given_.contains(name));
  return name;
}

Status Assembler::own_slots_since(std::size_t first, const Layer& layer) {
  for (std::size_t i = first; i < blueprint_.slots.size(); ++i) {
    const std::string& slot = blueprint_.slots[i].name;
    const auto [owner, is_new] = owner_of_slot_.emplace(slot, layer.name);
    if (is_new) continue;
    return misfit(
        fmt::format("the layers named `{}` and `{}` would both have the tensor `{}`; give one of "
                    "them another name",
                    owner->second, layer.name, slot));
  }
  return {};
}

void Assembler::add_slot(std::string name, SlotKind kind, std::vector<std::int64_t> shape,
                         Fill fill, double scale) {
  const std::int64_t size = product(shape);
  std::int64_t& end = kind == SlotKind::kParameter ? blueprint_.parameters : blueprint_.buffers;
  blueprint_.slots.push_back({std::move(name), kind, std::move(shape), end, size, fill, scale});
  end += size;
}

void Assembler::add_weight(const std::string& name, std::vector<std::int64_t> shape,
                           std::int64_t fan_in, std::int64_t fan_out, Init init) {
  const auto in = static_cast<double>(fan_in), out = static_cast<double>(fan_out);
  Fill fill = Fill::kNormal;
  double scale = 0.02;
  switch (init) {
    case Init::kDefault:
      fill = Fill::kUniform, scale = 1 / std::sqrt(in);
      break;  // As PyTorch does.
    case Init::kKaiming:
      scale = std::sqrt(2 / in);
      break;
    case Init::kXavier:
      fill = Fill::kUniform, scale = std::sqrt(6 / (in + out));
      break;
    case Init::kNormal:
      break;
    case Init::kZeros:
      fill = Fill::kZeros, scale = 0;
      break;
  }
  add_slot(name, SlotKind::kParameter, std::move(shape), fill, scale);
}

void Assembler::add_bias(const std::string& name, std::int64_t size, std::int64_t fan_in,
                         Init init) {
  const bool uniform = init == Init::kDefault;
  add_slot(name, SlotKind::kParameter, {size}, uniform ? Fill::kUniform : Fill::kZeros,
           uniform ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0);
}

void Assembler::add_norm_slots(const std::string& name, std::int64_t size) {
  add_slot(name + ".weight", SlotKind::kParameter, {size}, Fill::kOnes);
  add_slot(name + ".bias", SlotKind::kParameter, {size}, Fill::kZeros);
}

void Assembler::add_batch_norm_slots(const std::string& name, std::int64_t channels) {
  add_norm_slots(name, channels);
  add_slot(name + ".running_mean", SlotKind::kBuffer, {channels}, Fill::kZeros);
  add_slot(name + ".running_var", SlotKind::kBuffer, {channels}, Fill::kOnes);
}

void Assembler::add_linear_slots(const std::string& name, std::int64_t in, std::int64_t out,
                                 Init init) {
  add_weight(name + ".weight", {out, in}, in, out, init);
  add_bias(name + ".bias", out, in, init);
}

}  // namespace tandem::arch
