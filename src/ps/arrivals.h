// A server's slice when workers do not wait for each other: every push is applied as it arrives and
// answered with what the parameters are then. Pushes name the task that they are of
// (ps/dispenser.h); how far each task of the stretch has come is remembered, so a task that is
// computed again, because who computed it died, is applied only where it was not.
//
// A push holds the mean of its samples' gradients, and its learning rate is that of the step times
// its share of the step's samples. With `stale_lr` the rate is divided by one more than the steps'
// worth of updates that others made since the worker was answered last; with `compensation` the
// gradient is corrected for what they changed: g + c g g (w - w_then), element by element.
//
// Where gradients are collected instead, pushes are kept, one for each lane of the step, until the
// step is closed: then the mean over the samples of the lanes that count is applied. What comes
// later for it is dropped.
//
// Arithmetic and bookkeeping only. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ps/dense_slice.h"
#include "ps/message.h"
#include "ps/pieces.h"
#include "ps/task_progress.h"

namespace tandem::ps {

enum class StaleRate : std::uint8_t { kKept, kLowered };
enum class Applying : std::uint8_t { kAtOnce, kWhenClosed };

struct AsyncRule {
  StaleRate stale_lr = StaleRate::kKept;
  double compensation = 0;
  Applying applying = Applying::kAtOnce;
};

class Arrivals {
 public:
  // `copies` has a place as large as all pieces for each worker: what it was answered last. All
  // must outlive it. A task may have more at this server than its pieces, which then comes last
  // (ps/row_arrivals.h): the progress counts that, too.
  Arrivals(DenseSlice& slice, TaskProgress& progress, std::vector<Piece> pieces, std::int64_t lanes,
           AsyncRule rule, std::size_t workers, std::span<float> copies);

  const std::vector<Piece>& pieces() const { return pieces_; }

  // Whether there can be such a push at all. kInvalidArgument says why not.
  Status check_shape(const Header& push, int worker) const;
  // Whether this push of `worker` may come now; the same.
  Status check(const Header& push, int worker) const;
  // Whether all pieces of the worker's task have come.
  bool has_all(std::int64_t task, int worker) const;
  // Applies it, unless that was done before. kDiverged, changing nothing, when a gradient is not a
  // finite number. REQUIRES: check() said yes.
  Result<optim::Updated> apply(const Header& push, int worker, std::span<const float> gradient);
  // Where gradients are collected: these lanes of a step count. Does nothing for steps that are
  // closed already. kInvalidArgument when the lanes did not all come, or the step is not the next.
  Result<optim::Updated> close(std::int64_t step, std::span<const std::int64_t> lanes);
  // What the piece is now. Stays as it is until the worker's next push or answer of the piece.
  std::span<const float> answer(std::size_t piece, int worker);
  // Another gives that answer: at a copy, which does what it does in the same order.
  void note_answer(std::size_t piece, int worker);

 private:
  struct Worker {
    std::int64_t task = -1;           // Whose pieces come,
    std::uint64_t next = 0;           // from this one on.
    std::vector<std::uint64_t> seen;  // Updates of each piece when it was answered.
  };

  // What a lane pushed in the step that is not yet closed.
  struct Collected {
    std::size_t pieces = 0;
    double lr = 0;
    std::uint64_t samples = 0;
    std::vector<float> gradient;
  };

  bool collects() const { return rule_.applying == Applying::kWhenClosed; }
  void collect(const Header& push, const Bucket& at, std::span<const float> gradient);
  std::span<float> copy_of(std::size_t piece, int worker) const;

  DenseSlice& slice_;
  TaskProgress& progress_;
  const std::vector<Piece> pieces_;
  std::vector<std::size_t> places_;  // By piece, in a worker's copies,
  std::size_t copy_floats_ = 0;      // which are so large.
  const std::int64_t lanes_;
  const AsyncRule rule_;
  const std::span<float> copies_;
  std::vector<Worker> workers_;
  std::vector<std::uint64_t> updates_;  // By piece, in this generation.
  std::vector<float> scratch_;
  std::vector<Collected> collected_;  // By lane.
};

}  // namespace tandem::ps
