// The sparse table of a parameter server: rows of floats, such as embeddings, by 64-bit key.
// Workers push gradients and pull weights for the keys of their batch; the table holds the
// optimizer's state beside each row and applies gradients with the arithmetic of src/optim/
// (ps/row_rule.h).
//
// A row begins as a pure function of (seed, key). So it need not exist before it is pushed to,
// pulls create nothing, and the result does not depend on which server holds a key or who came
// first. Only a push *touches* a key:
//   - admission: the first `admit_after` pushes to a key are counted and dropped, so that keys seen
//     once or twice cost 16 bytes and not a row;
//   - age: a row, or a count, that was not touched for `evict_after` steps is as if it had never
//     been. sweep() frees its memory; when that happens changes no result.
// The same sequence of begin_step() and push() therefore gives the same bits.
//
// After mark() the table remembers what pushes change, so that a server can take back its last
// step.
//
// Owns all its memory: from some 300,000 rows of 16 floats or more on, at most 1.5 times their
// floats, also while it grows (ps/row_map.h). What sweep() frees serves later rows; the system gets
// it with the table's end. A push or pull takes constant time a key on average; its cache misses
// overlap. Belongs to one thread at a time; pulls alone may run side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "optim/config.h"
#include "ps/row_map.h"
#include "ps/row_rule.h"

namespace tandem::ps {

inline constexpr std::int64_t kMostWidth = 1 << 16;
inline constexpr std::int64_t kMostStep = 0xffffffff;

struct SparseTableConfig {
  std::int64_t width = 1;            // Weights of a row.
  optim::OptimizerConfig optimizer;  // Penalties act on the rows that are pushed.
  std::uint64_t seed = 1;
  double init_scale = 0;         // Rows begin uniform in [-init_scale, init_scale).
  std::int64_t admit_after = 0;  // Pushes to a key that are dropped before it gets a row.
  std::int64_t evict_after = 0;  // Steps without a push after which a row is gone; 0: never.
};

// What became of the keys of a push, each time that they stand in it.
struct Pushed {
  std::int64_t applied = 0;
  std::int64_t dropped = 0;     // Not yet admitted.
  std::int64_t created = 0;     // Of those applied: to a new row.
  std::int64_t not_finite = 0;  // Of those applied: left a weight that is no number. Diverged.
};

struct Swept {
  std::int64_t rows = 0;
  std::int64_t candidates = 0;  // Counts of keys that were not admitted.
};

// Takes the next bytes of a snapshot.
using Sink = std::function<Status(std::span<const std::byte>)>;
// Gives the next bytes of a snapshot: fills the whole span, or fails.
using Source = std::function<Status(std::span<std::byte>)>;

// What a table holds, as records of one size: see sparse_table_records.cc.
enum class Records : std::uint8_t {
  kRows,        // key (8), step of the last touch (4), words (4 each).
  kCandidates,  // key (8), step of the last touch (4), touches (4).
};

// What a table remembers of pushes, to take them back.
struct TableMark {
  // What was there before a push to a key.
  struct Before {
    std::uint64_t key = 0;
    std::uint32_t touched = 0;
    std::uint32_t touches = 0;  // Of a candidate.
    enum : std::uint8_t { kNothing, kCandidate, kRow } what = kNothing;
  };

  std::int64_t step = 1, evicted = 0;
  std::vector<Before> before;
  std::vector<float> words;  // Of those that had a row, one after another.
};

class SparseTable {
 public:
  // Empty, at step 1 with the configuration's lr. kInvalidArgument names the field that is wrong.
  static Result<SparseTable> create(const SparseTableConfig& config);

  // What follows belongs to this step: its rate, adam's bias correction, the age of rows.
  // kInvalidArgument, changing nothing, when `step` is before the present one or above kMostStep,
  // or `lr` is negative or not finite.
  Status begin_step(std::int64_t step, double lr);

  // Applies one gradient of `width` floats for each key, in order; a key that stands in the push
  // several times is updated several times. kInvalidArgument, applying nothing, when the sizes do
  // not fit or a gradient is not finite. kOutOfSpace says how many keys were applied before the
  // memory was full.
  Result<Pushed> push(std::span<const std::uint64_t> keys, std::span<const float> gradients);

  // The weights of each key; what a row begins with when it has none. kInvalidArgument, writing
  // nothing, when the sizes do not fit.
  Status pull(std::span<const std::uint64_t> keys, std::span<float> weights) const;

  // Frees what is too old among about `most_slots` places of rows, and as many of candidates, going
  // on where the last call ended. REQUIRES: most_slots >= 0.
  Swept sweep(std::int64_t most_slots);

  // From now on, until the next call, pushes and steps can be taken back. What was remembered
  // before is forgotten. Takes the memory of the rows that are pushed to meanwhile.
  void mark();
  // Everything is as when mark() was called, which can be undone once. REQUIRES: it was.
  // kOutOfSpace, leaving the table of no more use, when the memory is full.
  Status take_back();
  bool can_take_back() const { return marked_.has_value(); }

  // The keys of what is not too old, in any order.
  std::vector<std::uint64_t> keys(Records what) const;
  std::size_t record_bytes(Records what) const;
  // Appends the records of these keys. REQUIRES: keys() gave them, and nothing was pushed since.
  void append(Records what, std::span<const std::uint64_t> keys, std::string& to) const;
  // What all records together are, whatever order they lie in: their number, and the sum of their
  // hashes.
  struct Digest {
    std::uint64_t records = 0, sum = 0;
  };
  Digest digest(Records what) const;
  // Takes over whole records. kInvalidArgument names a key that was there already, a number that is
  // none, or a touch in a step to come; those before it are then in the table.
  Status insert(Records what, std::span<const std::byte> records);

  // Writes a snapshot in pieces. Its bytes depend on what the table holds, not on how it came
  // about: rows are in the order of their keys, and what is too old is left out. The sink's error
  // ends it. Takes 8 bytes a row of memory meanwhile.
  Status save(const Sink& sink) const;

  // A table with what a snapshot holds; begin_step() is to be called before the next push, for the
  // rate is not in it. Admission and age may differ from what they were. kInvalidArgument when the
  // snapshot is of another width, optimizer or beginning of rows; kVersionMismatch and kCorrupt
  // when it cannot be read. The memory taken is in proportion to the bytes read.
  static Result<SparseTable> restore(const SparseTableConfig& config, const Source& source);

  // Rows, and keys that wait for admission; both with those that are too old and not yet swept.
  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t candidates() const { return static_cast<std::int64_t>(candidates_.size()); }
  // Rows and candidates that grew too old, since the table was made, as far as this was noticed.
  std::int64_t evicted() const { return evicted_; }
  // All memory that the table holds.
  std::size_t bytes() const { return rows_.bytes() + candidates_.bytes(); }
  // Floats of a row, with the optimizer's state.
  std::size_t row_words() const { return rule_.words(); }
  std::int64_t step() const { return step_; }
  const SparseTableConfig& config() const { return config_; }

 private:
  SparseTable(const SparseTableConfig& config, RowRule rule)
      : config_(config), rule_(std::move(rule)), rows_(rule_.words()), candidates_(1) {}

  bool is_old(const Row& row) const { return is_old(row, step_); }
  bool is_old(const Row& row, std::int64_t step) const {
    return config_.evict_after != 0 &&
           step - static_cast<std::int64_t>(row.touched()) >= config_.evict_after;
  }
  void initialise(std::uint64_t key, std::span<float> weights) const;
  Status check_sizes(std::size_t keys, std::size_t floats, const char* what) const;
  // For a push to a key whose `row` is too old or absent: `row` becomes a new one, or none when the
  // push is to be dropped.
  Status renew(std::uint64_t key, std::uint64_t hash, Row& row, Pushed& pushed);
  Result<Row> create_row(std::uint64_t key, std::uint64_t hash);
  Status restore_row(std::uint64_t key, std::span<const std::byte> rest);
  Status restore_candidate(std::uint64_t key, std::span<const std::byte> rest);
  void note(std::uint64_t key, std::uint64_t hash, const Row& row);
  Status restore(const TableMark::Before& before, std::span<const float> words);

  // Counts a push to a key without a row. Returns whether the key is admitted.
  Result<bool> admit(std::uint64_t key, std::uint64_t hash);

  // Constant after construction.
  SparseTableConfig config_;

  RowRule rule_;
  RowMap rows_;
  RowMap candidates_;  // One word: how often the key was touched.
  std::int64_t step_ = 1;
  std::int64_t evicted_ = 0;
  std::optional<TableMark> marked_;
};

}  // namespace tandem::ps
