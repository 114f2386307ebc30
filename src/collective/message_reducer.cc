#include "collective/message_reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace tandem::collective {
namespace {

class MessageReducer final : public Reducer {
 public:
  MessageReducer(Engine& engine, ReducePlan plan, MessageReducerMemory memory,
                 std::vector<float> kept)
      : engine_(engine),
        plan_(std::move(plan)),
        kept_(std::move(kept)),
        partials_(std::move(memory.partials)),
        own_(std::move(memory.own)),
        result_(memory.sum, plan_.floats) {
    std::size_t widest = 0;
    for (const Bucket& bucket : plan_.buckets) {
      const Bucket slice = slice_of(bucket, rank(), size());
      widest = std::max(widest, slice.end - slice.begin);
    }
    for (const Partial& partial : partials_) {
      if (partial.worker != rank()) received_.emplace_back(widest);
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  ~MessageReducer() override {
    thread_.request_stop();
    changed_.notify_all();
  }

  std::size_t partials() const override { return own_.size(); }
  std::span<float> partial(std::size_t index) override { return {own_[index], plan_.floats}; }

  Status ready(std::size_t count) override {
    const std::scoped_lock lock(mutex_);
    filled_ += count;
    changed_.notify_all();
    return status_;
  }

  Status release(Deadline) override { return {}; }

  Result<std::span<const float>> sum(Deadline deadline) override {
    std::unique_lock lock(mutex_);
    TANDEM_CHECK(filled_ == plan_.buckets.size());
    deadline_ = deadline;
    changed_.wait(lock, [this] { return summed_ == plan_.buckets.size() || !status_.ok(); });
    deadline_.reset();
    TANDEM_TRY(status_);
    filled_ = summed_ = 0;
    return std::span<const float>(result_);
  }

 private:
  int rank() const { return engine_.membership().rank; }
  int size() const { return engine_.membership().size(); }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, stop, [this] { return summed_ < filled_; });
      if (stop.stop_requested() || !status_.ok()) return;
      const std::size_t bucket = summed_;
      const Deadline deadline = deadline_.value_or(deadline_after(plan_.patience));
      lock.unlock();
      Status status = sum_bucket(plan_.buckets[bucket], deadline);
      lock.lock();
      if (status.ok()) {
        ++summed_;
      } else {
        status_ = std::move(status).error().within(
            fmt::format("bucket {} of {}", bucket + 1, plan_.buckets.size()));
      }
      changed_.notify_all();
    }
  }

  Status sum_bucket(const Bucket& bucket, Deadline deadline) {
    const Bucket mine = slice_of(bucket, rank(), size());
    std::vector<Send> sends;
    std::vector<Receive> receives;
    std::vector<const float*> sources;
    std::size_t others = 0, ours = 0;
    for (const Partial& partial : partials_) {
      if (partial.worker == rank()) {
        const std::span<const float> memory(own_[ours++], plan_.floats);
        sources.push_back(memory.data());
        for (int peer = 0; peer < size(); ++peer) {
          const Bucket slice = slice_of(bucket, peer, size());
          if (peer != rank())
            sends.push_back(
                {peer, std::as_bytes(memory.subspan(slice.begin, slice.end - slice.begin))});
        }
        continue;
      }
      std::vector<float>& memory = received_[others++];
      // As if the whole vector lay there, for add_partials().
      sources.push_back(memory.data() - mine.begin);
      receives.push_back({static_cast<int>(partial.worker),
                          std::as_writable_bytes(std::span(memory).first(mine.end - mine.begin))});
    }
    TANDEM_TRY(engine_.exchange(sends, receives, deadline));
    if (mine.begin < mine.end)
      add_partials({0, plan_.lanes}, partials_, sources, mine, result_.data() + mine.begin);
    return gather(bucket, deadline);
  }

  Status gather(const Bucket& bucket, Deadline deadline) {
    const auto bytes = [&](int peer) {
      const Bucket slice = slice_of(bucket, peer, size());
      return std::as_writable_bytes(result_.subspan(slice.begin, slice.end - slice.begin));
    };
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      sends.push_back({peer, bytes(rank())});
      receives.push_back({peer, bytes(peer)});
    }
    return engine_.exchange(sends, receives, deadline);
  }

  Engine& engine_;
  const ReducePlan plan_;
  std::vector<float> kept_;  // Memory of our own, when we were given none.
  const std::vector<Partial> partials_;

  // The caller's until a bucket is ready, then the thread's until it is summed.
  const std::vector<float*> own_;
  const std::span<float> result_;
  std::vector<std::vector<float>> received_;  // A slice of each partial of the others.

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::size_t filled_ = 0, summed_ = 0;
  std::optional<Deadline> deadline_;
  Status status_;

  std::jthread thread_;  // Last: it uses all of the above.
};

}  // namespace

std::unique_ptr<Reducer> make_message_reducer(Engine& engine, ReducePlan plan,
                                              MessageReducerMemory memory) {
  return std::make_unique<MessageReducer>(engine, std::move(plan), std::move(memory),
                                          std::vector<float>());
}

std::unique_ptr<Reducer> make_message_reducer(Engine& engine, ReducePlan plan) {
  MessageReducerMemory memory;
  memory.partials = partials_of(ends_of(plan, engine.membership().size()));
  const auto ours = static_cast<std::size_t>(std::count_if(
      memory.partials.begin(), memory.partials.end(),
      [&](const Partial& partial) { return partial.worker == engine.membership().rank; }));
  std::vector<float> kept((ours + 1) * plan.floats);
  for (std::size_t i = 0; i < ours; ++i) memory.own.push_back(kept.data() + i * plan.floats);
  memory.sum = kept.data() + ours * plan.floats;
  return std::make_unique<MessageReducer>(engine, std::move(plan), std::move(memory),
                                          std::move(kept));
}

Result<std::unique_ptr<Reducer>> Engine::make_reducer(ReducePlan plan, Deadline) {
  return make_message_reducer(*this, std::move(plan));
}

}  // namespace tandem::collective
