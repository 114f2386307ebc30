// Puts a Blueprint together layer by layer: checks that each fits behind the one before, gives it a
// name, and lays out its slots. Used by arch::build() only.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "base/result.h"

namespace tandem::arch {

class Assembler {
 public:
  // `init` is for weights whose layer does not say. `names_given` are those of all layers that will
  // be added with a name; layers without one get others.
  Assembler(const Interface& interface, Init init, std::set<std::string> names_given);

  // The layers that follow belong to this block.
  void begin_block(std::string name);

  // kInvalidArgument when the layer does not fit or would share a slot's name with another; the
  // message says why and what would do.
  Status add(Layer layer);

  // What one sample looks like behind the last layer.
  const std::vector<std::int64_t>& shape() const { return shape_; }

  // Checks that the last layer gives what the data asks for. Call once, last.
  Result<Blueprint> finish() &&;

 private:
  Status add_linear(Layer& layer);
  Status add_conv(Layer& layer);
  Status add_pool(Layer& layer);
  Status add_batch_norm(const Layer& layer);
  Status add_layer_norm(const Layer& layer);
  Status add_embedding(const Layer& layer);
  Status add_residual(const Layer& layer);
  Status add_decoder(const Layer& layer);
  // In assembler_tables.cc.
  Status add_factors(const Layer& layer);
  Status add_wide_deep(const Layer& layer);

  Status need_rank(const Layer& layer, std::size_t rank, std::string_view advice) const;
  std::string next_name(LayerKind kind);
  Status own_slots_since(std::size_t first, const Layer& layer);
  void add_slot(std::string name, SlotKind kind, std::vector<std::int64_t> shape, Fill fill,
                double scale = 0);
  // REQUIRES: nothing but tables was added before.
  void add_table(std::string name, const IdColumn& ids, std::int64_t width, double scale);
  void add_weight(const std::string& name, std::vector<std::int64_t> shape, std::int64_t fan_in,
                  std::int64_t fan_out, Init init);
  void add_bias(const std::string& name, std::int64_t size, std::int64_t fan_in, Init init);
  void add_norm_slots(const std::string& name, std::int64_t size);
  void add_batch_norm_slots(const std::string& name, std::int64_t channels);
  void add_linear_slots(const std::string& name, std::int64_t in, std::int64_t out, Init init);

  Blueprint blueprint_;
  const Init init_;
  bool tokens_;  // What flows is still token numbers.
  std::vector<std::int64_t> shape_;
  const std::set<std::string> names_given_;
  std::vector<std::int64_t> names_used_;              // By LayerKind.
  std::map<std::string, std::string> owner_of_slot_;  // Layers' names by slots' names.
};

}  // namespace tandem::arch
