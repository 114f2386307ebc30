#include "data/loader.h"

#include <algorithm>
#include <numeric>
#include <system_error>

#include "base/check.h"

namespace tandem::data {
namespace {

// Batches that each thread may be ahead, beside the one that the caller reads.
constexpr std::int64_t kAheadPerThread = 3;

}  // namespace

Loader::Loader(const Dataset& dataset, const Sampler& sampler, LoadRange range,
               std::int64_t threads)
    : dataset_(dataset) {
  TANDEM_CHECK(sampler.samples() == dataset.size());
  TANDEM_CHECK(range.first_step >= 0 && range.first_step <= range.last_step);
  TANDEM_CHECK(range.first_lane >= 0 && range.first_lane < range.last_lane);
  TANDEM_CHECK(range.last_lane <= sampler.lanes());
  const std::int64_t lanes = range.last_lane - range.first_lane;
  items_ = (range.last_step - range.first_step) * lanes;
  plan_ = [sampler, range, lanes](std::int64_t item, LoadedBatch& place,
                                  std::vector<std::uint32_t>& indices) {
    const std::int64_t step = range.first_step + item / lanes;
    place.epoch = step / sampler.steps_per_epoch();
    place.step = step % sampler.steps_per_epoch();
    place.lane = range.first_lane + item % lanes;
    sampler.lane_indices(place.epoch, place.step, place.lane, indices);
  };
  start(sampler.most_lane_samples(), threads, range.peeked);
}

Loader::Loader(const Dataset& dataset, std::int64_t batch, std::int64_t threads, BatchShare share)
    : dataset_(dataset) {
  TANDEM_CHECK(batch >= 1 && share.first >= 0 && share.first < share.every);
  const std::int64_t size = dataset.size(), batches = size / batch + (size % batch != 0);
  items_ = batches > share.first ? (batches - share.first - 1) / share.every + 1 : 0;
  plan_ = [size, batch, share](std::int64_t item, LoadedBatch& place,
                               std::vector<std::uint32_t>& indices) {
    place.step = share.first + item * share.every;
    const std::int64_t first = place.step * batch;
    indices.resize(static_cast<std::size_t>(std::min(batch, size - first)));
    std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(first));
  };
  start(std::min(batch, size), threads);
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  freed_.notify_all();
  threads_.clear();  // Joins, while all that the threads use still lives.
}

void Loader::start(std::int64_t most_samples, std::int64_t threads, std::int64_t peeked) {
  TANDEM_CHECK(threads >= 0 && peeked >= 0);
  peeked_ = peeked;
  threads = std::min(threads, items_);
  slots_.resize(static_cast<std::size_t>(1 + std::max(threads * kAheadPerThread, peeked)));
  for (Slot& slot : slots_) {
    slot.indices.reserve(static_cast<std::size_t>(most_samples));
    reserve(dataset_.spec(), most_samples, slot.loaded.batch);
  }
  threads_.reserve(static_cast<std::size_t>(threads));
  try {
    while (static_cast<std::int64_t>(threads_.size()) < threads) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // The system gives no more threads: fewer prepare the same batches, or next() does.
  }
}

void Loader::fill(std::int64_t item, Slot& slot) const {
  plan_(item, slot.loaded, slot.indices);
  dataset_.gather(slot.indices, slot.loaded.batch);
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (claimed_ < items_) {
    const auto ahead = static_cast<std::int64_t>(slots_.size());
    freed_.wait(lock,
                [&] { return stopping_ || claimed_ >= items_ || claimed_ < released_ + ahead; });
    if (stopping_ || claimed_ >= items_) break;
    const std::int64_t item = claimed_++;
    Slot& slot = slot_of(item);
    lock.unlock();
    fill(item, slot);
    lock.lock();
    slot.ready_item = item;
    filled_.notify_one();
  }
  // Another thread may wait for a slot of an item that will not come.
  freed_.notify_all();
}

const LoadedBatch* Loader::next() {
  if (given_ >= items_) return nullptr;
  const std::int64_t item = given_++;
  if (threads_.empty()) return &await(item).loaded;
  std::unique_lock lock(mutex_);
  released_ = item;  // The batch of the call before this one is no longer read.
  // Waking costs the caller more than a batch is worth, so it waits until half of the slots are
  // free.
  if (claimed_ < items_ && claimed_ - released_ <= std::ssize(slots_) / 2) {
    lock.unlock();
    freed_.notify_all();
    lock.lock();
  }
  lock.unlock();
  return &await(item).loaded;
}

const LoadedBatch* Loader::peek(std::int64_t ahead) {
  TANDEM_CHECK(ahead >= 0 && ahead < peeked_);
  return given_ + ahead < items_ ? &await(given_ + ahead).loaded : nullptr;
}

Loader::Slot& Loader::await(std::int64_t item) {
  Slot& slot = slot_of(item);
  if (threads_.empty()) {
    if (slot.ready_item != item) fill(item, slot);
    slot.ready_item = item;
    return slot;
  }
  std::unique_lock lock(mutex_);
  if (slot.ready_item != item) {
    freed_.notify_all();  // next() may have left the threads asleep.
    filled_.wait(lock, [&] { return slot.ready_item == item; });
  }
  return slot;
}

}  // namespace tandem::data
