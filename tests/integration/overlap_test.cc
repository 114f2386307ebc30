// Steps of a worker whose results come by TCP while its next forward runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "data/loader.h"
#include "data/source.h"
#include "exchange/servers.h"
#include "ps/testing.h"
#include "train/buckets.h"
#include "train/recipe.h"
#include "train/stepper.h"

namespace tandem::train {
namespace {

constexpr std::int64_t kLanes = 2, kSteps = 12;

// Large enough that its results are still on their way when it is known what workers wish.
job::Job wide_job() {
  job::Job job;
  job.model.config = {.kind = "mlp", .hidden = {1200, 1200}, .dropout = 0.1};
  job.cluster.lanes = kLanes;
  job.cluster.strategy = "ps";
  job.ps.transport = "tcp";
  job.train.batch = 64;
  job.train.optimizer.momentum = 0.9;
  return job;
}

// A worker alone, with two servers.
class Overlap : public ::testing::Test {
 protected:
  explicit Overlap(job::Job job = wide_job())
      : job_(std::move(job)),
        parts_(data::load(job_.data, ".").value()),
        sampler_(parts_.train->size(), job_.train.batch, kLanes, 1),
        loader_(*parts_.train, sampler_, {0, kSteps, 0, kLanes}, 1),
        model_(model::Model::create(blueprint_of(job_, parts_.spec).value(), job_.train.loss, 1)
                   .value()),
        servers_(2) {
    model_->initialise(1);
    stepper_ = Stepper::create(job_, *model_,
                               {.parameters = {{0, model_->blueprint().parameters}},
                                .buffers = {{0, model_->blueprint().buffers}}})
                   .value();
    Meeting meeting;
    meeting.servers = {servers_.endpoints(), {}, servers_.token(), nullptr, 1};
    EXPECT_TRUE(stepper_->join(alone_, std::move(meeting)).ok());
  }

  // All lanes of a step; what came of the one before it.
  Status run_lanes(std::int64_t step, std::vector<double>& losses) {
    TANDEM_TRY(stepper_->begin_step(step, 0.01));
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const Status ran = stepper_->run_lane(loader_.next()->batch, lane, samples(step));
      if (const auto settled = stepper_->take_settled()) losses.push_back(settled->sums.loss);
      TANDEM_TRY(ran);
    }
    return {};
  }

  // As if some steps had fewer samples than lanes.
  static std::int64_t samples(std::int64_t step) { return step % 3 == 1 ? 1 : 64; }

  std::vector<float> weights() {
    return {model_->parameters().begin(), model_->parameters().end()};
  }

  const job::Job job_;
  const data::Parts parts_;
  const data::Sampler sampler_;
  data::Loader loader_;
  const std::unique_ptr<model::Model> model_;
  collective::Group alone_;
  ps::TestServers servers_;
  std::unique_ptr<Stepper> stepper_;
};

class Clipped : public Overlap {
 protected:
  Clipped()
      : Overlap([] {
          job::Job job = wide_job();
          job.train.clip.norm = 0.5;
          return job;
        }()) {}
};

// Statistics are divided by the samples or lanes of their own step.
class Normed : public Overlap {
 protected:
  Normed()
      : Overlap([] {
          job::Job job = wide_job();
          job.ps.aggregate = "sum";
          job.train.optimizer.lr = 1e-4;
          job.model.config = {.kind = "layers",
                              .layers = {{.kind = arch::LayerKind::kConv, .out = 16},
                                         {.kind = arch::LayerKind::kBatchNorm},
                                         {.kind = arch::LayerKind::kRelu},
                                         {.kind = arch::LayerKind::kFlatten},
                                         {.kind = arch::LayerKind::kLinear, .out = 2400},
                                         {.kind = arch::LayerKind::kLinear}}};
          return job;
        }()) {}
};

// Losses of each step, and the weights at the end.
template <typename Fixture>
struct Trained : Fixture {
  void TestBody() override {}
  std::vector<double> losses;
  int pending = 0;

  void train(bool overlaps) {
    for (std::int64_t step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(this->run_lanes(step, losses).ok());
      if (overlaps && step + 1 < kSteps) {
        const auto left = this->stepper_->leave_pending();
        ASSERT_TRUE(left.ok()) << left.error().message();
        pending += *left ? 1 : 0;
        if (*left) continue;
      }
      const auto outcome = this->stepper_->finish_step();
      ASSERT_TRUE(outcome.ok()) << outcome.error().message();
      losses.push_back(outcome->sums.loss);
    }
  }
  std::vector<float> result() { return this->weights(); }
  std::vector<float> statistics() {
    return {this->model_->buffers().begin(), this->model_->buffers().end()};
  }
};

template <typename Fixture>
void expect_the_same_bits() {
  Trained<Fixture> one_by_one, overlapping;
  one_by_one.train(false);
  overlapping.train(true);
  EXPECT_EQ(one_by_one.pending, 0);
  EXPECT_GT(overlapping.pending, 0);
  EXPECT_EQ(overlapping.losses, one_by_one.losses);
  EXPECT_EQ(overlapping.result(), one_by_one.result());
}

TEST(OverlappingSteps, GiveTheSameBits) {
  expect_the_same_bits<Overlap>();
}

TEST(OverlappingSteps, GiveTheSameBitsWhenClippedByNorm) {
  expect_the_same_bits<Clipped>();
}

// A worker alone whose servers hold one half of the parameters each.
class EarlyParts : public ::testing::Test {
 protected:
  static constexpr std::size_t kParameters = 600'000, kFloats = kParameters + 4;
  static constexpr std::size_t kEarly = 100'000;  // At the first server, all of them.

  EarlyParts() : servers_(2), weights_(kParameters, 1.0F) {
    exchange::Plan plan;
    plan.reduce = {.lanes = 1, .floats = kFloats, .buckets = make_buckets(kParameters, kFloats, 0)};
    plan.parameters = kParameters;
    plan.trainable = {{0, static_cast<std::int64_t>(kParameters)}};
    buckets_ = plan.reduce.buckets.size();
    optimizer_ = optim::Optimizer::create(plan.optimizer, kParameters).value();
    exchange_ = exchange::make_servers(plan,
                                       {.servers = servers_.endpoints(),
                                        .token = servers_.token(),
                                        .transport = "tcp",
                                        .generation = 1,
                                        .optimizer_steps = 0},
                                       alone_, weights_, *optimizer_, deadline())
                    .value();
  }

  static collective::Deadline deadline() {
    return collective::deadline_after(std::chrono::seconds(20));
  }

  // All gradients of a step are 1 and known to the servers, but not what stands behind them.
  void push_gradients() {
    ASSERT_TRUE(exchange_->begin(0, 0.5).ok());
    std::ranges::fill(exchange_->partial(0), 1.0F);
    ASSERT_TRUE(exchange_->ready(buckets_ - 1).ok());
    ASSERT_TRUE(exchange_->update_part(kEarly, weights_, deadline()).ok());
    EXPECT_EQ(std::ranges::count(weights_, 0.5F), kEarly);
    EXPECT_EQ(std::ranges::count(weights_, 1.0F), kParameters - kEarly);
    EXPECT_FALSE(exchange_->has_all());
  }

  ps::TestServers servers_;
  std::vector<float> weights_;
  collective::Group alone_;
  std::size_t buckets_ = 0;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<exchange::Exchange> exchange_;
};

TEST_F(EarlyParts, StayWhenTheRestComes) {
  push_gradients();
  ASSERT_TRUE(exchange_->ready(1).ok());
  ASSERT_TRUE(exchange_->gather(deadline()).ok());
  exchange_->update(weights_);
  EXPECT_EQ(std::ranges::count(weights_, 0.5F), kParameters);
}

TEST_F(EarlyParts, ArePutBackWhenTheRestDoesNotCome) {
  push_gradients();
  servers_.stop(1);
  // Whichever notices first.
  Status told = exchange_->ready(1);
  if (told.ok()) told = exchange_->gather(deadline());
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.error().code(), Code::kPeerLost) << told.error().message();
  exchange_->undo(weights_);
  EXPECT_EQ(std::ranges::count(weights_, 1.0F), kParameters);
}

TEST(OverlappingSteps, GiveTheSameRunningStatistics) {
  Trained<Normed> one_by_one, overlapping;
  one_by_one.train(false);
  overlapping.train(true);
  EXPECT_GT(overlapping.pending, 0);
  EXPECT_EQ(overlapping.statistics(), one_by_one.statistics());
}

TEST_F(Overlap, LeavesTheModelAsBeforeAStepThatDoesNotCome) {
  std::vector<double> losses;
  std::vector<float> before;
  std::int64_t step = 0;
  for (bool is_pending = false; !is_pending; ++step) {
    ASSERT_LT(step, kSteps - 1) << "everything comes at once";
    before = weights();
    ASSERT_TRUE(run_lanes(step, losses).ok());
    const auto left = stepper_->leave_pending();
    ASSERT_TRUE(left.ok()) << left.error().message();
    is_pending = *left;
    if (!is_pending) {
      ASSERT_TRUE(stepper_->finish_step().ok());
    }
  }
  servers_.stop(1);
  const Status broken = run_lanes(step, losses);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code(), Code::kPeerLost) << broken.error().message();
  EXPECT_TRUE(broken.error().message().starts_with(fmt::format("step {}: ", step)))
      << broken.error().message();
  EXPECT_TRUE(losses.empty()) << "nothing was settled";
  stepper_->leave();
  EXPECT_FALSE(stepper_->is_pending());
  EXPECT_EQ(weights(), before);
}

}  // namespace
}  // namespace tandem::train
