// The states of slices that a server process has: those that its workers train on, and others that
// the next workers may ask for, because slices are cut anew when the number of servers changes.
//
// A state stays until the first step of a generation that goes on from others is done: then every
// server of that generation has what it needs. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/arena.h"
#include "ps/dense_slice.h"
#include "ps/dispenser.h"
#include "ps/table_set.h"
#include "ps/task_progress.h"
#include "wire/ps.pb.h"

namespace tandem::ps {

// State of a slice, in memory that workers of this host map.
struct Holding {
  std::unique_ptr<collective::Arena> arena;
  collective::Mapping memory;
  std::unique_ptr<DenseSlice> slice;
  std::unique_ptr<TableSet> tables = nullptr;  // Kept by key, in step with the slice; null: none.
  std::size_t vector_floats = 0;
  std::uint64_t used_in = 0;  // The last generation that went on from it.
  // Where workers do not wait for each other.
  std::optional<TaskProgress> progress = {};
  TaskTally tally = {};  // At the server that hands out tasks.

  // Goes on from the state after `step`, all of it. kNotFound when there is none.
  Status use(std::int64_t step);
};

// kOutOfSpace when it does not fit into memory.
Result<std::shared_ptr<Holding>> make_holding(const SliceConfig& config,
                                              const TableSetConfig& tables,
                                              std::size_t vector_floats);

class Shelf {
 public:
  // However often generations end before their first step.
  static constexpr std::size_t kMost = 16;

  // The one that can go on as this slice; null when there is none.
  std::shared_ptr<Holding> find(const SliceConfig& config, const TableSetConfig& tables,
                                std::size_t vector_floats) const;
  void put(std::shared_ptr<Holding> holding);
  // Drops those that this generation does not go on from.
  void keep_only(std::uint64_t generation);

  // Floats of the vector's state after `step`, or in the midst of the stretch of tasks after it,
  // from float `place` on. kNotFound when no state has them all. Whoever sends them keeps the owner
  // until they are gone: the peer may read slowly, and the shelf drop the state meanwhile.
  struct Fetched {
    std::span<const float> floats;
    std::shared_ptr<const Holding> owner;
  };
  Result<Fetched> fetch(std::int64_t step, std::size_t array, std::size_t place,
                        std::size_t count) const;
  // The tables of a share after `step`, brought to that state where they are a step further.
  // kNotFound when there are none.
  Result<TableSet*> tables(std::int64_t step, const KeyShare& share) const;
  // What there is, for a worker that begins.
  void describe(wire::PsBegun& begun) const;

 private:
  std::vector<std::shared_ptr<Holding>> all_;  // The newest last.
};

}  // namespace tandem::ps
