#include "arch/kinds.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::arch {
namespace {

using Kind = LayerKind;

Layer plain(Kind kind) {
  return {.kind = kind};
}

Layer linear(std::string name, std::int64_t out) {
  return {.kind = Kind::kLinear, .out = out, .name = std::move(name)};
}

Layer conv(std::string name, std::int64_t out) {
  return {.kind = Kind::kConv, .out = out, .name = std::move(name)};
}

Layer dropout(double rate) {
  return {.kind = Kind::kDropout, .rate = rate};
}

std::vector<NamedBlock> softmax() {
  return {{"fc", {plain(Kind::kFlatten), linear("fc", 0)}}};
}

std::vector<NamedBlock> mlp(const ModelConfig& config) {
  std::vector<std::int64_t> widths = config.hidden;
  if (widths.empty()) widths = {512, 512};
  std::vector<NamedBlock> blocks;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string name = fmt::format("fc{}", i + 1);
    NamedBlock block{name, {}};
    if (i == 0) block.layers.push_back(plain(Kind::kFlatten));
    block.layers.push_back(linear(name, widths[i]));
    block.layers.push_back(plain(Kind::kRelu));
    if (config.dropout > 0) block.layers.push_back(dropout(config.dropout));
    blocks.push_back(std::move(block));
  }
  const std::string last = fmt::format("fc{}", widths.size() + 1);
  blocks.push_back({last, {linear(last, 0)}});
  return blocks;
}

std::vector<NamedBlock> cnn(const ModelConfig& config) {
  const Layer pool{.kind = Kind::kMaxPool, .kernel = 2, .stride = 2};
  std::vector<NamedBlock> blocks = {
      {"conv1", {conv("conv1", 32), plain(Kind::kRelu)}},
      {"conv2", {conv("conv2", 64), plain(Kind::kRelu), pool}},
      {"fc1", {plain(Kind::kFlatten), linear("fc1", 128), plain(Kind::kRelu)}},
      {"fc2", {linear("fc2", 0)}},
  };
  if (config.dropout > 0) {
    blocks[1].layers.push_back(dropout(config.dropout));
    blocks[2].layers.push_back(dropout(config.dropout));
  }
  return blocks;
}

std::vector<NamedBlock> resnet18(const ModelConfig& config) {
  const Init init = config.init == Init::kDefault ? Init::kKaiming : config.init;
  const Layer stem{
      .kind = Kind::kConv, .out = 64, .padding = 1, .bias = false, .init = init, .name = "conv1"};
  const Layer norm{.kind = Kind::kBatchNorm, .name = "bn1"};
  std::vector<NamedBlock> blocks = {{"stem", {stem, norm, plain(Kind::kRelu)}}};
  for (int stage = 0; stage < 4; ++stage) {
    for (int part = 0; part < 2; ++part) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, part);
      const std::int64_t stride = stage > 0 && part == 0 ? 2 : 1;
      blocks.push_back({name,
                        {{.kind = Kind::kResidual,
                          .out = std::int64_t{64} << stage,
                          .stride = stride,
                          .name = name}}});
    }
  }
  blocks.push_back({"fc", {plain(Kind::kGlobalAvgPool), linear("fc", 0)}});
  return blocks;
}

std::vector<NamedBlock> gpt(const ModelConfig& config) {
  const Init init = config.init == Init::kDefault ? Init::kNormal : config.init;
  std::vector<NamedBlock> blocks = {{"embedding",
                                     {{.kind = Kind::kEmbedding,
                                       .out = config.width,
                                       .position = true,
                                       .init = init,
                                       .name = "token"}}}};
  if (config.dropout > 0) blocks[0].layers.push_back(dropout(config.dropout));
  for (std::int64_t i = 0; i < config.blocks; ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    blocks.push_back({name, {{.kind = Kind::kDecoder, .heads = config.heads, .name = name}}});
    if (config.dropout > 0) blocks.back().layers.push_back(dropout(config.dropout));
  }
  Layer head = linear("head", 0);
  head.init = init;
  blocks.push_back({"head", {{.kind = Kind::kLayerNorm, .name = "norm"}, head}});
  return blocks;
}

std::vector<NamedBlock> matrix_factorization(const ModelConfig& config) {
  const Layer factors{
      .kind = Kind::kFactors, .out = config.dim, .scale = config.scale, .name = "factors"};
  return {{"factors", {factors}}};
}

std::vector<NamedBlock> wide_deep(const ModelConfig& config) {
  Layer layer{.kind = Kind::kWideDeep,
              .out = config.dim,
              .rate = config.dropout,
              .scale = config.scale,
              .hidden = config.hidden,
              .name = "wide_deep"};
  if (layer.hidden.empty()) layer.hidden = {64, 32};
  return {{"wide_deep", {layer}}};
}

bool has_parameters(Kind kind) {
  switch (kind) {
    case Kind::kLinear:
    case Kind::kConv:
    case Kind::kEmbedding:
    case Kind::kResidual:
    case Kind::kDecoder:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<std::string_view> kind_names() {
  return {"softmax",   "mlp",   "cnn", "resnet18", "gpt", "matrix_factorization",
          "wide_deep", "layers"};
}

Result<std::vector<NamedBlock>> blocks_of(const ModelConfig& config, const Interface& interface) {
  const bool images = interface.input_shape.size() == 3 && !interface.tokens;
  if (interface.tokens != (config.kind == "gpt")) {
    return Error(
        Code::kInvalidArgument,
        interface.tokens
            ? fmt::format(
                  "model `{}` cannot read text; use kind = \"gpt\" or layers that start with an "
                  "embedding",
                  config.kind)
            : "model `gpt` reads text; use source = \"text\"");
  }
  if ((config.kind == "cnn" || config.kind == "resnet18") && !images) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("model `{}` needs images (channels x height x width); use `mlp` for tables",
                    config.kind));
  }
  const bool tables = config.kind == "matrix_factorization" || config.kind == "wide_deep";
  if (!tables && !interface.ids.empty()) return cannot_read_ids(config.kind);
  if (config.kind == "softmax") return softmax();
  if (config.kind == "mlp") return mlp(config);
  if (config.kind == "cnn") return cnn(config);
  if (config.kind == "resnet18") return resnet18(config);
  if (config.kind == "gpt") return gpt(config);
  if (config.kind == "matrix_factorization") return matrix_factorization(config);
  if (config.kind == "wide_deep") return wide_deep(config);
  return Error(Code::kInvalidArgument, fmt::format("unknown model kind `{}`", config.kind));
}

Error cannot_read_ids(std::string_view kind) {
  return Error(Code::kInvalidArgument,
               fmt::format("model `{}` cannot read data.categorical columns; use "
                           "\"matrix_factorization\" or \"wide_deep\"",
                           kind));
}

std::vector<NamedBlock> cut_into_blocks(const std::vector<Layer>& layers) {
  std::vector<NamedBlock> blocks;
  bool has_weights =
      true;  // Of the block that is open; a new one begins at the next layer with weights.
  for (const Layer& layer : layers) {
    if (blocks.empty() || (has_parameters(layer.kind) && has_weights)) {
      blocks.push_back({fmt::format("block{}", blocks.size() + 1), {}});
      has_weights = false;
    }
    has_weights = has_weights || has_parameters(layer.kind);
    blocks.back().layers.push_back(layer);
  }
  return blocks;
}

}  // namespace tandem::arch
