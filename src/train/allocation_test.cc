// Counts every allocation of the process through operator new while steps run.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "data/loader.h"
#include "data/source.h"
#include "train/recipe.h"
#include "train/stepper.h"

namespace {
std::atomic<std::int64_t> allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace tandem::train {
namespace {

// What steps of this model allocate after an epoch of warm-up.
std::int64_t allocations_of(const arch::ModelConfig& config) {
  job::Job job;
  job.model.config = config;
  job.cluster.lanes = 3;
  job.train.optimizer.momentum = 0.9;
  job.train.clip.norm = 1;
  const data::Parts parts = data::load(job.data, ".").value();
  auto model =
      model::Model::create(blueprint_of(job, parts.spec).value(), job.train.loss, 1).value();
  model->initialise(1);
  collective::Group alone;
  auto stepper = Stepper::create(job, *model,
                                 {.parameters = {{0, model->blueprint().parameters}},
                                  .buffers = {{0, model->blueprint().buffers}}},
                                 alone)
                     .value();
  const data::Sampler sampler(parts.train->size(), job.train.batch, 3, 1);
  const std::int64_t epoch = sampler.steps_per_epoch();
  data::Loader loader(*parts.train, sampler, {0, 3 * epoch, 0, 3}, 1);
  std::int64_t at_start = 0;
  for (std::int64_t step = 0; step < 3 * epoch; ++step) {
    // Warm-up is an epoch: it holds the short last batch too.
    if (step == epoch) at_start = allocations;
    EXPECT_TRUE(stepper->begin_step(step, 0.01).ok());
    for (std::int64_t lane = 0; lane < 3; ++lane) {
      EXPECT_TRUE(stepper->run_lane(loader.next()->batch, lane, 64).ok());
    }
    EXPECT_TRUE(stepper->finish_step().ok());
  }
  return allocations - at_start;
}

TEST(Allocation, StepsAllocateNothingAfterWarmUp) {
  EXPECT_EQ(allocations_of({.kind = "softmax"}), 0);
  EXPECT_EQ(allocations_of({.kind = "mlp", .dropout = 0.1}), 0);
}

}  // namespace
}  // namespace tandem::train
