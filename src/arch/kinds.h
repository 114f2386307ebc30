// The model kinds that a job file can name, as layers.
#pragma once

#include <string_view>
#include <vector>

#include "arch/arch.h"

namespace tandem::arch {

struct NamedBlock {
  std::string name;
  std::vector<Layer> layers;
};

// The names of all kinds, "layers" last.
std::vector<std::string_view> kind_names();

// The blocks of a kind other than "layers". kInvalidArgument for an unknown kind.
Result<std::vector<NamedBlock>> blocks_of(const ModelConfig& config, const Interface& interface);

// Why a model of this kind cannot be trained on data with IdColumns.
Error cannot_read_ids(std::string_view kind);

// A user's own list of layers, cut into blocks: each layer with parameters begins one.
std::vector<NamedBlock> cut_into_blocks(const std::vector<Layer>& layers);

}  // namespace tandem::arch
