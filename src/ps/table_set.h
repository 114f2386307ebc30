// The sparse tables (ps/sparse_table.h) of one parameter server, which go in step with its slice of
// the vector: after every step there is a state, and the one before it can be gone back to, because
// servers and workers that lose somebody in the middle of a step must agree on one that all still
// have. What a step changed is remembered for that, and no more.
//
// After n steps the tables stand at the step under way, n + 1: what is too old is so for the pulls
// before a step as for its pushes.
//
// Nothing that is loaded is believed: keys must be held here. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "optim/optimizer.h"
#include "ps/key_order.h"
#include "ps/sparse_table.h"
#include "ps/tables.h"

namespace tandem::ps {

struct TableSetConfig {
  std::vector<SparseTableConfig> tables;
  std::vector<std::uint64_t> keys;  // By table: they are below.
  KeyShare share;                   // Of them, what this server holds.
};

// Whether tables that were made for one can go on as the other.
bool is_same_set(const TableSetConfig& a, const TableSetConfig& b);

class TableSet {
 public:
  // Without any state, until one is loaded.
  static Result<std::unique_ptr<TableSet>> create(TableSetConfig config);

  const TableSetConfig& config() const { return config_; }
  const std::vector<SparseTable>& tables() const { return tables_; }

  // Whether there is the state after `step`.
  bool has(std::int64_t step) const;
  // Goes on from it. kNotFound when there is none.
  Status use(std::int64_t step);
  // Steps done. REQUIRES, here and below but for load(): use() was called.
  std::int64_t step() const { return step_; }

  // Records of a state that is loaded, until use() says that it is whole; the first call with
  // another step than before forgets everything else. kInvalidArgument says what is wrong.
  Status load(std::int64_t step, std::size_t table, Records what,
              std::span<const std::byte> records);
  // Whoever loaded is gone: what came of it is of no use, and the next load begins anew.
  void drop_load() { loading_.reset(); }

  // The step after the last one; then push() once for each table, then commit(). After an error
  // roll_back() drops the step.
  Status begin(double lr);
  Result<optim::Updated> push(std::size_t table, std::span<const std::uint64_t> keys,
                              std::span<const float> sums);
  Status commit(double lr);
  Status roll_back();

  Status pull(std::size_t table, std::span<const std::uint64_t> keys,
              std::span<float> weights) const {
    return tables_[table].pull(keys, weights);
  }

  // Records in the order of their keys, from number `from` on, about as many as a message shall
  // have, and how many there are in all. The first call for a table gathers its keys.
  // kInvalidArgument when there is no such table or number.
  struct Fetched {
    std::string records;
    std::size_t all = 0;
  };
  Result<Fetched> fetch(std::uint64_t table, std::uint64_t what, std::uint64_t from);

 private:
  explicit TableSet(TableSetConfig config) : config_(std::move(config)) {}
  Status make_tables();
  void forget_order() { ordered_.reset(); }

  // Of what is being fetched.
  struct Ordered {
    std::size_t table = 0;
    Records what = Records::kRows;
    KeyOrder keys;
  };

  const TableSetConfig config_;
  std::vector<SparseTable> tables_;
  std::int64_t step_ = -1;  // -1: no state.
  bool can_go_back_ = false;
  std::optional<std::int64_t> loading_;
  std::optional<Ordered> ordered_;
};

}  // namespace tandem::ps
