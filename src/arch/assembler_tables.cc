// The layers that read rows of tables: matrix factorisation, and wide and deep.
#include <fmt/format.h>

#include <utility>

#include "arch/assembler.h"
#include "base/check.h"

namespace tandem::arch {
namespace {

// Tables hold less than the flat vector may (assembler.cc), and no product of sizes overflows.
constexpr std::int64_t kMostTableFloats = std::int64_t{1} << 36;

Error misfit(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

Status check_tables(const std::vector<IdColumn>& ids, std::int64_t width) {
  if (width < 1) return misfit("an embedding needs `dim`, its width, of 1 or more");
  for (const IdColumn& column : ids) {
    if (column.rows < 1) return misfit("a table of embeddings needs at least one row");
    if (column.rows <= kMostTableFloats / width) continue;
    return misfit(fmt::format("a table of {} rows of {} numbers is too large: over 2^36 numbers",
                              column.rows, width));
  }
  return {};
}

}  // namespace

Status Assembler::add_factors(const Layer& layer) {
  const std::vector<IdColumn>& ids = blueprint_.interface.ids;
  const auto inputs = static_cast<std::int64_t>(ids.size());
  if (shape_ != std::vector<std::int64_t>{2} || inputs != 2) {
    return misfit(
        fmt::format("matrix_factorization reads two inputs, a user and an item, both in "
                    "data.categorical; the data has {} inputs, {} of them categorical (leave "
                    "columns out with data.ignore)",
                    shape_.size() == 1 ? shape_[0] : 0, inputs));
  }
  if (blueprint_.interface.outputs != 1) {
    return misfit(
        fmt::format("matrix_factorization predicts one number a sample, but the data has {} "
                    "classes or values; use data.task = \"values\" and loss = \"mse\", or two "
                    "classes and loss = \"bce\"",
                    blueprint_.interface.outputs));
  }
  TANDEM_TRY(check_tables(ids, layer.out));
  add_table("user.weight", ids[0], layer.out, layer.scale);
  add_table("item.weight", ids[1], layer.out, layer.scale);
  add_table("user.bias", ids[0], 1, 0);
  add_table("item.bias", ids[1], 1, 0);
  add_slot("bias", SlotKind::kParameter, {1}, Fill::kZeros);
  shape_ = {1};
  return {};
}

Status Assembler::add_wide_deep(const Layer& layer) {
  const std::vector<IdColumn>& ids = blueprint_.interface.ids;
  const std::int64_t outputs = blueprint_.interface.outputs;
  if (ids.empty()) return misfit("wide_deep needs columns of rows: name them in data.categorical");
  if (shape_.size() != 1) return misfit("wide_deep reads tables, not images");
  TANDEM_TRY(check_tables(ids, layer.out));
  TANDEM_TRY(check_tables(ids, outputs));
  const auto columns = static_cast<std::int64_t>(ids.size());
  const std::int64_t dense = shape_[0] - columns;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    add_table(fmt::format("embedding{}.weight", i + 1), ids[i], layer.out, layer.scale);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    add_table(fmt::format("wide{}.weight", i + 1), ids[i], outputs, 0);
  }
  if (dense > 0) add_weight("wide.weight", {outputs, dense}, dense, outputs, Init::kZeros);
  std::int64_t width = columns * layer.out + dense;
  std::size_t number = 1;
  for (const std::int64_t hidden : layer.hidden) {
    add_linear_slots(fmt::format("fc{}", number++), width, hidden, layer.init);
    width = hidden;
  }
  add_linear_slots(fmt::format("fc{}", number), width, outputs, layer.init);
  shape_ = {outputs};
  return {};
}

void Assembler::add_table(std::string name, const IdColumn& ids, std::int64_t width, double scale) {
  TANDEM_CHECK(blueprint_.tables.size() == blueprint_.slots.size());
  blueprint_.tables.push_back(
      {static_cast<std::int64_t>(blueprint_.slots.size()), ids.rows, width, ids.column, ids.rows});
  add_slot(std::move(name), SlotKind::kParameter, {ids.rows, width},
           scale > 0 ? Fill::kRows : Fill::kZeros, scale);
}

}  // namespace tandem::arch
