#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>

#include "data/memory.h"

namespace tandem::data {
namespace {

constexpr std::int64_t kWidth = 3;

// Sample i is {i, i + 0.25, i + 0.5}, of class i % 7.
std::shared_ptr<const Dataset> counting_set(std::int64_t size) {
  Features features;
  Targets targets;
  features.count = size;
  features.width = kWidth;
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < kWidth; ++j) {
      features.floats.push_back(static_cast<float>(i) + 0.25F * static_cast<float>(j));
    }
    targets.classes.push_back(static_cast<std::int32_t>(i % 7));
  }
  Spec spec;
  spec.shape = {kWidth};
  spec.classes = 7;
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(size));
  std::iota(rows.begin(), rows.end(), 0U);
  return std::make_shared<const SampleSet>(
      spec, std::make_shared<const Features>(std::move(features)),
      std::make_shared<const Targets>(std::move(targets)), no_normalisation(1), std::move(rows));
}

struct Seen {
  std::int64_t epoch, step, lane;
  std::vector<float> inputs;
  std::vector<std::int32_t> classes;
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> drain(Loader& loader) {
  std::vector<Seen> seen;
  while (const LoadedBatch* loaded = loader.next()) {
    EXPECT_EQ(static_cast<std::size_t>(loaded->batch.size), loaded->batch.classes.size());
    seen.push_back(
        {loaded->epoch, loaded->step, loaded->lane, loaded->batch.inputs, loaded->batch.classes});
  }
  EXPECT_EQ(loader.next(), nullptr);
  return seen;
}

TEST(Loader, GivesTheSameWithAnyNumberOfThreads) {
  const auto set = counting_set(101);
  const Sampler sampler(101, 16, 3, 9);
  const LoadRange range{2, 25, 0, 3};
  Loader inline_loader(*set, sampler, range, 0);
  const auto expected = drain(inline_loader);
  EXPECT_EQ(expected.size(), 23U * 3);
  for (std::int64_t threads : {1, 2, 5}) {
    Loader loader(*set, sampler, range, threads);
    EXPECT_EQ(drain(loader), expected) << threads;
  }
}

TEST(Loader, StartsAnywhereAndCrossesEpochs) {
  const auto set = counting_set(50);
  const Sampler sampler(50, 16, 2, 4);
  Loader whole_loader(*set, sampler, {0, 10, 0, 2}, 0);
  const auto whole = drain(whole_loader);
  EXPECT_EQ(whole[8].epoch, 1);
  EXPECT_EQ(whole[8].step, 0);
  Loader later_loader(*set, sampler, {3, 10, 0, 2}, 1);
  EXPECT_EQ(drain(later_loader), std::vector<Seen>(whole.begin() + 6, whole.end()));
  Loader lane_loader(*set, sampler, {3, 4, 1, 2}, 1);
  EXPECT_EQ(drain(lane_loader), std::vector<Seen>(whole.begin() + 7, whole.begin() + 8));
}

TEST(Loader, ShowsWhatComesNext) {
  const auto set = counting_set(101);
  const Sampler sampler(101, 16, 5, 9);
  for (const std::int64_t threads : {0, 1, 3}) {
    Loader loader(*set, sampler, {0, 20, 1, 5, /*peeked=*/4}, threads);
    for (std::int64_t step = 0; step < 20; ++step) {
      std::vector<std::vector<float>> shown;
      for (std::int64_t ahead = 0; ahead < 4; ++ahead)
        shown.push_back(loader.peek(ahead)->batch.inputs);
      for (const std::vector<float>& inputs : shown) EXPECT_EQ(loader.next()->batch.inputs, inputs);
    }
    EXPECT_EQ(loader.peek(0), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Loader, ReadsInIndexOrder) {
  const auto set = counting_set(10);
  for (std::int64_t threads : {0, 2}) {
    Loader loader(*set, 4, threads);
    const auto seen = drain(loader);
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[2].classes, (std::vector<std::int32_t>{1, 2}));
    EXPECT_EQ(seen[2].inputs, (std::vector<float>{8, 8.25, 8.5, 9, 9.25, 9.5}));
  }
  const auto none = counting_set(10);
  Loader whole(*none, 100, 1);
  EXPECT_EQ(drain(whole).size(), 1U);
}

TEST(Loader, EndsAtAnyMoment) {
  const auto set = counting_set(1000);
  const Sampler sampler(1000, 10, 1, 1);
  for (int taken = 0; taken < 12; ++taken) {
    Loader loader(*set, sampler, {0, 1000000, 0, 1}, 3);
    for (int i = 0; i < taken; ++i) ASSERT_NE(loader.next(), nullptr);
  }
}

TEST(Loader, ReusesItsMemory) {
  const auto set = counting_set(1000);
  const Sampler sampler(1000, 64, 1, 1);
  for (std::int64_t threads : {0, 2}) {
    Loader loader(*set, sampler, {0, 200, 0, 1}, threads);
    std::set<const float*> places;
    while (const LoadedBatch* loaded = loader.next()) places.insert(loaded->batch.inputs.data());
    EXPECT_LE(std::ssize(places), 1 + 3 * threads);
  }
}

// A data set that counts how many gathers are done, to see how far ahead the loader goes.
class CountingSet final : public Dataset {
 public:
  explicit CountingSet(std::shared_ptr<const Dataset> inner) : inner_(std::move(inner)) {}
  const Spec& spec() const override { return inner_->spec(); }
  std::int64_t size() const override { return inner_->size(); }
  void gather(std::span<const std::uint32_t> indices, Batch& batch) const override {
    ++gathered;
    inner_->gather(indices, batch);
  }
  mutable std::atomic<int> gathered = 0;

 private:
  std::shared_ptr<const Dataset> inner_;
};

TEST(Loader, DoesNotRunAwayFromTheReader) {
  const CountingSet set(counting_set(1000));
  const Sampler sampler(1000, 10, 1, 1);
  {
    Loader loader(set, sampler, {0, 1000, 0, 1}, 2);
    for (int i = 0; i < 10; ++i) ASSERT_NE(loader.next(), nullptr);
  }
  EXPECT_LE(set.gathered, 9 + 1 + 2 * 3);
}

}  // namespace
}  // namespace tandem::data
