// Prepares batches ahead of the one who trains or evaluates, in background threads. What comes, and
// in which order, does not depend on the number of threads. Memory is reserved at the start:
// nothing is allocated per batch.
//
// next() belongs to one thread. The destructor ends the threads at any time without waiting for
// more than the batches that they are filling.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "data/dataset.h"
#include "data/sampler.h"

namespace tandem::data {

// What to train on: steps are counted from the start of training, through all epochs; lanes are
// those that this process hosts. Ends are exclusive.
struct LoadRange {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t first_lane = 0;
  std::int64_t last_lane = 1;
  // Batches from the next one on that peek() may be asked for.
  std::int64_t peeked = 0;
};

// Which batches of a pass are ours: number `first` and every so many after it.
struct BatchShare {
  std::int64_t first = 0;
  std::int64_t every = 1;
};

struct LoadedBatch {
  std::int64_t epoch = 0;  // 0 when loading in index order.
  std::int64_t step = 0;   // Within the epoch; the batch's number when loading in index order.
  std::int64_t lane = 0;
  Batch batch;
};

class Loader {
 public:
  // Lane batches in the order of (step, lane). With 0 threads they are prepared inside next().
  // REQUIRES: `dataset` outlives this; it has as many samples as `sampler` says; the lanes are the
  // sampler's.
  Loader(const Dataset& dataset, const Sampler& sampler, LoadRange range, std::int64_t threads);

  // A share of one pass over the data set in index order, in batches of `batch` samples (the last
  // may be short). REQUIRES: `dataset` outlives this; batch is at least 1.
  Loader(const Dataset& dataset, std::int64_t batch, std::int64_t threads, BatchShare share = {});

  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, valid until the next call; null after the last one.
  const LoadedBatch* next();

  // What next() will give when it is called so many times more than once; valid as that is. Null
  // behind the last batch. REQUIRES: ahead < LoadRange::peeked.
  const LoadedBatch* peek(std::int64_t ahead);

 private:
  // Says where item number `item` lies and which samples it has.
  using Plan = std::function<void(std::int64_t item, LoadedBatch& place,
                                  std::vector<std::uint32_t>& indices)>;

  struct Slot {
    LoadedBatch loaded;
    std::vector<std::uint32_t> indices;
    // The item that `loaded` holds. Guarded by mutex_ while there are threads.
    std::int64_t ready_item = -1;
  };

  void start(std::int64_t most_samples, std::int64_t threads, std::int64_t peeked = 0);
  // Waits until the item is there.
  Slot& await(std::int64_t item);
  void fill(std::int64_t item, Slot& slot) const;
  void work();
  Slot& slot_of(std::int64_t item) {
    return slots_[static_cast<std::size_t>(item) % slots_.size()];
  }

  // Constant after construction.
  const Dataset& dataset_;
  std::int64_t items_ = 0;
  Plan plan_;
  std::int64_t peeked_ = 0;
  std::vector<std::jthread> threads_;

  // A slot's batch belongs to the thread that claimed its item until ready_item says so, then to
  // the caller of next().
  std::vector<Slot> slots_;

  // Touched only by the caller of next().
  std::int64_t given_ = 0;

  std::mutex mutex_;
  std::condition_variable filled_;  // A slot became ready.
  std::condition_variable freed_;   // A slot may be filled again, or stopping_.
  std::int64_t claimed_ = 0;        // Items below are filled or being filled. Guarded by mutex_.
  std::int64_t released_ = 0;       // Items below will not be read any more. Guarded by mutex_.
  bool stopping_ = false;           // Guarded by mutex_.
};

}  // namespace tandem::data
