#include "train/checkpointer.h"

#include <utility>

#include "checkpoint/store.h"
#include "train/saved_model.h"

namespace tandem::train {

using Clock = std::chrono::steady_clock;

Checkpointer::Checkpointer(std::filesystem::path store, std::function<Status()> may_write,
                           const job::Checkpoint& config, std::int64_t step,
                           const arch::Blueprint& blueprint, checkpoint::Metadata model,
                           checkpoint::Metadata training)
    : store_(std::move(store)),
      may_write_(std::move(may_write)),
      config_(config),
      blueprint_(blueprint),
      model_metadata_(std::move(model)),
      training_metadata_(std::move(training)),
      last_step_(step),
      thread_([this] { run(); }) {}

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Checkpointer::is_writing() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

bool Checkpointer::is_due(std::int64_t step) const {
  if (is_writing()) return false;
  if (config_.every_steps > 0 && step - last_step_ >= config_.every_steps) return true;
  return config_.every_seconds > 0 &&
         Clock::now() - last_time_ >= std::chrono::duration<double>(config_.every_seconds);
}

bool Checkpointer::take(std::int64_t step, model::Model& model, optim::Optimizer& optimizer,
                        Numbers numbers, std::optional<std::int64_t> best,
                        std::shared_ptr<const TableFiles> tables) {
  if (is_writing()) return false;
  capture(model, optimizer, std::move(numbers), snapshot_);
  snapshot_.tables = std::move(tables);
  step_ = last_step_ = step;
  best_ = best;
  last_time_ = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
  return true;
}

void Checkpointer::put_off(std::int64_t step) {
  last_step_ = step;
  last_time_ = Clock::now();
}

bool Checkpointer::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, at_most, [this] { return !busy_; });
}

std::optional<Checkpointer::Outcome> Checkpointer::outcome() {
  const std::lock_guard lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

void Checkpointer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || stopping_; });
    if (!busy_) return;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    Status status = write();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    lock.lock();
    outcome_ = Outcome{step_, seconds, std::move(status)};
    busy_ = false;
    changed_.notify_all();
  }
}

Status Checkpointer::write() {
  const checkpoint::ModelContent model = weights_content(
      blueprint_, snapshot_.parameters, snapshot_.buffers, model_metadata_, snapshot_.tables.get());
  const Status written = checkpoint::write_checkpoint(
      store_, step_, model, training_content(snapshot_, training_metadata_), may_write_);
  snapshot_.tables.reset();  // The disk may need the room.
  TANDEM_TRY(written);
  TANDEM_ASSIGN(std::vector<checkpoint::Stored> stored, checkpoint::list_checkpoints(store_));
  for (const checkpoint::Stored& old :
       checkpoint::superfluous(std::move(stored), config_.keep, best_)) {
    TANDEM_TRY(may_write_());
    TANDEM_TRY(checkpoint::remove_checkpoint(old));
  }
  return {};
}

}  // namespace tandem::train
