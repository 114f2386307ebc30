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
#include <functional>
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
  bool is_loading() const { return loading_.has_value(); }
  // Whoever loaded is gone: what came of it is of no use, and the next load begins anew.
  void drop_load() { loading_.reset(); }

  // The step after the last one; then push() once for each table, then commit(). After an error
  // roll_back() drops the step.
  Status begin(double lr);
  Result<optim::Updated> push(std::size_t table, std::span<const std::uint64_t> keys,
                              std::span<const float> sums);
  Status commit(double lr);
  Status roll_back();

  // Where workers do not wait for each other the state is changed in place: `pushes` are of a task
  // of the step after `steps_done`. Tables stand at the newest step that was so named. An Error
  // only when memory is out; all is then as before.
  Result<optim::Updated> arrive(std::int64_t steps_done, double lr,
                                const std::function<Result<optim::Updated>(TableSet&)>& pushes);
  // A pull for such a task: what is too old for its push is so for the pull.
  Status look(std::int64_t steps_done);
  // The state that was so changed is the one after `step`.
  Status stand_after(std::int64_t step);

  Status pull(std::size_t table, std::span<const std::uint64_t> keys,
              std::span<float> weights) const {
    return tables_[table].pull(keys, weights);
  }

  // XXH3-128 of what tells the tables from others, as hex digits: rows and candidates.
  std::string checksum() const;

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
  Status advance(std::int64_t step, double lr);
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
  double lr_ = 0;  // Of the last push.
  std::optional<std::int64_t> loading_;
  std::optional<Ordered> ordered_;
};

}  // namespace tandem::ps
