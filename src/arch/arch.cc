#include "arch/arch.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "arch/assembler.h"
#include "arch/kinds.h"
#include "base/check.h"

namespace tandem::arch {

std::string_view to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::kLinear:
      return "linear";
    case LayerKind::kConv:
      return "conv";
    case LayerKind::kMaxPool:
      return "max_pool";
    case LayerKind::kAvgPool:
      return "avg_pool";
    case LayerKind::kGlobalAvgPool:
      return "global_avg_pool";
    case LayerKind::kRelu:
      return "relu";
    case LayerKind::kGelu:
      return "gelu";
    case LayerKind::kTanh:
      return "tanh";
    case LayerKind::kDropout:
      return "dropout";
    case LayerKind::kBatchNorm:
      return "batchnorm";
    case LayerKind::kLayerNorm:
      return "layernorm";
    case LayerKind::kFlatten:
      return "flatten";
    case LayerKind::kEmbedding:
      return "embedding";
    case LayerKind::kResidual:
      return "residual";
    case LayerKind::kDecoder:
      return "decoder";
    case LayerKind::kFactors:
      return "factors";
    case LayerKind::kWideDeep:
      return "wide_deep";
  }
  return "unknown";
}

std::vector<std::string_view> layer_names() {
  std::vector<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(LayerKind::kDecoder); ++kind) {
    names.push_back(to_string(static_cast<LayerKind>(kind)));
  }
  return names;
}

Result<Blueprint> build(const ModelConfig& config, const Interface& interface, LayerError* where) {
  std::vector<NamedBlock> blocks;
  if (config.kind == "layers") {
    if (!interface.ids.empty()) return cannot_read_ids(config.kind);
    blocks = cut_into_blocks(config.layers);
    if (blocks.empty())
      return Error(Code::kInvalidArgument, "model kind `layers` needs at least one layer");
  } else {
    TANDEM_ASSIGN(blocks, blocks_of(config, interface));
  }
  std::set<std::string> names_given;
  for (const NamedBlock& block : blocks) {
    for (const Layer& layer : block.layers) {
      if (!layer.name.empty()) names_given.insert(layer.name);
    }
  }
  Assembler assembler(interface, config.init, std::move(names_given));
  std::int64_t index = 0;
  for (NamedBlock& block : blocks) {
    assembler.begin_block(std::move(block.name));
    for (Layer& layer : block.layers) {
      if (Status status = assembler.add(std::move(layer)); !status.ok()) {
        if (where != nullptr)
          *where = {config.kind == "layers" ? index : -1, status.error().message()};
        return std::move(status).error();
      }
      ++index;
    }
  }
  Result<Blueprint> result = std::move(assembler).finish();
  if (!result.ok() && where != nullptr) {
    *where = {config.kind == "layers" ? index - 1 : -1, result.error().message()};
  }
  return result;
}

Result<Blueprint> build_with_window(const ModelConfig& config, const Interface& interface,
                                    std::int64_t window_rows, LayerError* where) {
  Interface seen = interface;
  for (IdColumn& ids : seen.ids) ids.rows = std::min(ids.rows, window_rows);
  TANDEM_ASSIGN(Blueprint blueprint, build(config, seen, where));
  for (Table& table : blueprint.tables) {
    const auto ids =
        std::find_if(interface.ids.begin(), interface.ids.end(),
                     [&](const IdColumn& each) { return each.column == table.column; });
    TANDEM_CHECK(ids != interface.ids.end());
    table.all_rows = ids->rows;
    blueprint.window += table.rows * table.width;
  }
  return blueprint;
}

}  // namespace tandem::arch
