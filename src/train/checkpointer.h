// Writes checkpoints while training goes on: take() copies the state, a thread of its own writes it
// and then removes the ones that are no longer kept. A failed write is an outcome like any other.
// Methods are for one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "checkpoint/model_file.h"
#include "job/job.h"
#include "train/snapshot.h"

namespace tandem::train {

class Checkpointer {
 public:
  struct Outcome {
    std::int64_t step = 0;
    double seconds = 0;  // That writing took.
    Status status;
  };

  // `store` must exist, `step` steps are done. The metadata go into the two files of each
  // checkpoint. `may_write` is asked on the writer's thread. REQUIRES: keep > 0.
  Checkpointer(std::filesystem::path store, std::function<Status()> may_write,
               const job::Checkpoint& config, std::int64_t step, const arch::Blueprint& blueprint,
               checkpoint::Metadata model, checkpoint::Metadata training);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Whether one shall be taken after `step` steps. Not while the last one is still being written:
  // what a checkpoint needs may have to be fetched, in vain if take() then refuses it.
  bool is_due(std::int64_t step) const;

  // Copies the state after `step` steps; false when the last one is still being written. `best` is
  // the step whose checkpoint is kept whatever comes; `tables` are what servers keep by key.
  bool take(std::int64_t step, model::Model& model, optim::Optimizer& optimizer, Numbers numbers,
            std::optional<std::int64_t> best, std::shared_ptr<const TableFiles> tables = {});
  // The one that was due after `step` steps could not be taken: the next is due when it would be
  // then.
  void put_off(std::int64_t step);
  // Whether nothing is being written any more, after at most so long.
  bool wait(std::chrono::milliseconds at_most);
  // Of a write that has ended since the last call.
  std::optional<Outcome> outcome();

 private:
  bool is_writing() const;
  void run();
  Status write();

  // Constant after construction.
  const std::filesystem::path store_;
  const std::function<Status()> may_write_;
  const job::Checkpoint config_;
  const arch::Blueprint& blueprint_;
  const checkpoint::Metadata model_metadata_, training_metadata_;

  std::int64_t last_step_;
  std::chrono::steady_clock::time_point last_time_ = std::chrono::steady_clock::now();

  // The writer's while `busy_`, else the caller's.
  Snapshot snapshot_;
  std::int64_t step_ = 0;
  std::optional<std::int64_t> best_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool busy_ = false, stopping_ = false;
  std::optional<Outcome> outcome_;

  std::thread thread_;
};

}  // namespace tandem::train
