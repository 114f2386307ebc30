// How a step's gradients become new parameters: the seam between whoever computes them
// (train/stepper.h) and the strategies. The vector that is exchanged holds the gradients of all
// parameters, then numbers that are only summed: statistics, losses.
//
// A step: pull() where there are tables, begin(), make_room(), partial sums are written and told of
// by ready(), gather(), then take() and update() in any order, and end(). Where its outcome comes
// in parts, those that are there may be used before gather() by the next forward. After an error
// the step must be dropped, and the exchange with it; parameters are then as before the step, once
// undo() was called where update_part() was. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/engine.h"
#include "collective/reducer.h"
#include "optim/config.h"
#include "optim/optimizer.h"
#include "optim/range.h"
#include "ps/client.h"
#include "ps/tables.h"

namespace tandem::exchange {

using collective::Bucket;
using collective::Deadline;
using ps::Pull;
using ps::Records;
using ps::RecordSink;
using ps::RecordSource;
using ps::RowLists;
using ps::SparseRows;
using ps::Table;
using ps::TableRecords;
using ps::TableSize;

// What is exchanged and how parameters are updated; the same at every worker.
struct Plan {
  collective::ReducePlan reduce;
  std::size_t parameters = 0;  // Of the vector's floats; they come first.
  std::vector<optim::Range> trainable;
  optim::OptimizerConfig optimizer;
  optim::ClipConfig clip;
  // With parameter servers: whether only what is trained travels, and of these tables only the rows
  // that a step touches. The tables are trained; other exchanges do not look at them.
  Pull pull = Pull::kFull;
  std::vector<Table> tables = {};
  // Where servers keep these by key: one for each. Then they are windows, first in the vector.
  std::vector<SparseRows> sparse = {};
  std::int64_t admit_after = 0, evict_after = 0;
};

struct Update {
  double norm = 0;  // Of the gradient, before it was clipped; 0 when it is not clipped by norm.
  optim::Updated updated = optim::Updated::kFinite;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // How many partial sums this worker has, and the memory of each: to be written from make_room()
  // until ready(), and asked for again in each step.
  virtual std::size_t partials() const = 0;
  virtual std::span<float> partial(std::size_t index) = 0;

  // Whether this worker keeps up the rows of tables only as far as it names them.
  virtual bool has_rows() const { return false; }
  // Where it does, before begin(): the rows that each partial sum reads and trains in the step, by
  // table. `parameters`, those of the model, get them as they are after `steps_done` steps.
  virtual Status pull(std::int64_t /*steps_done*/, std::span<const RowLists> /*rows*/,
                      std::span<float> /*parameters*/, Deadline /*deadline*/) {
    return {};
  }
  // Between steps: all rows become what they are after `steps_done` steps. No other worker need do
  // anything.
  virtual Status complete(std::int64_t /*steps_done*/, std::span<float> /*parameters*/,
                          Deadline /*deadline*/) {
    return {};
  }

  // Where tables are kept by key, between steps. Brings rows into the windows, in the order of
  // their numbers; gives all that the tables hold to a sink; says how large they are. No other
  // worker need do anything.
  virtual Status read_rows(std::int64_t /*steps_done*/, const RowLists& /*rows*/,
                           std::span<float> /*parameters*/, Deadline /*deadline*/) {
    return {};
  }
  virtual Status read_tables(std::int64_t /*steps_done*/, const RecordSink& /*sink*/,
                             Deadline /*deadline*/) {
    return {};
  }
  virtual Result<std::vector<TableSize>> table_sizes(Deadline /*deadline*/) {
    return std::vector<TableSize>();
  }

  // The step after `steps_done` begins.
  virtual Status begin(std::int64_t steps_done, double lr) = 0;
  // Waits until nobody reads the partial sums of the step before any more.
  virtual Status make_room(Deadline /*deadline*/) { return {}; }
  // True: make_room() would not wait. False: it may.
  virtual bool has_room() const { return true; }
  // The next `count` buckets of the step are complete in every partial sum of this worker.
  virtual Status ready(std::size_t count) = 0;
  // Waits until the sums over all lanes are known.
  virtual Status gather(Deadline deadline) = 0;
  // Copies sums; of gradients, where this worker has no more, what it computed itself.
  virtual void take(Bucket at, std::span<float> to) = 0;
  // Brings the parameters to what they are after the step. What is no longer finite is found out
  // here, or by the norm.
  virtual Update update(std::span<float> parameters) = 0;
  virtual void end() {}

  // Whether the outcome may be had piece by piece between the last ready() and gather().
  virtual bool comes_in_parts() const { return false; }
  // Whether gather() would not wait.
  virtual bool has_all() const { return true; }
  // Waits until the sums of a part, which are behind the parameters, are known: take() may be
  // called for it.
  virtual Status gather_part(Bucket /*part*/, Deadline /*deadline*/) { return {}; }
  // Brings the parameters up to `end` to what they are after the step, as soon as they are there.
  // It is not known yet whether the step will be complete: if not, undo() makes them what they
  // were.
  virtual Status update_part(std::size_t /*end*/, std::span<float> /*parameters*/,
                             Deadline /*deadline*/) {
    return {};
  }
  virtual void undo(std::span<float> /*parameters*/) {}

  // For whoever saves: the optimizer's state after `steps_done` steps is put into the optimizer
  // that was given when the exchange was made, if it is not there already. Every server is asked
  // for its part; no other worker need do anything.
  virtual Status fetch_state(std::int64_t /*steps_done*/, Deadline /*deadline*/) { return {}; }

  // What moved besides the group's own.
  virtual collective::Traffic traffic() const { return {}; }
};

}  // namespace tandem::exchange
