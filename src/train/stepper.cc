#include "train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/span_math.h"
#include "train/buckets.h"
#include "train/lane_sums.h"
#include "train/recipe.h"

namespace tandem::train {
namespace {

// Behind the lanes' sums: how many workers have each wish but the first.
constexpr std::size_t kWishFloats = 2;
// Floats of the sum that are added and used at a time: they stay in the first-level cache.
constexpr std::size_t kPiece = 2048;

}  // namespace

Result<std::unique_ptr<Stepper>> Stepper::create(const job::Job& job, model::Model& model,
                                                 Trainable trainable) {
  TANDEM_ASSIGN(auto optimizer,
                optim::Optimizer::create(job.train.optimizer, model.blueprint().parameters));
  return std::unique_ptr<Stepper>(
      new Stepper(job, model, std::move(trainable), std::move(optimizer)));
}

Result<std::unique_ptr<Stepper>> Stepper::create(const job::Job& job, model::Model& model,
                                                 Trainable trainable, collective::Group& group) {
  TANDEM_ASSIGN(std::unique_ptr<Stepper> stepper, create(job, model, std::move(trainable)));
  TANDEM_TRY(stepper->join(group));
  return stepper;
}

void Stepper::leave() {
  trees_.clear();
  reducer_.reset();
}

Status Stepper::join(collective::Group& group, collective::LaneEnds ends) {
  leave();
  begin_step();
  wish_ = Wish::kGoOn;
  plan_.ends = std::move(ends);
  hosted_ = collective::hosted_lanes(collective::ends_of(plan_, group.size()), group.rank());
  TANDEM_ASSIGN(reducer_, group.make_reducer(plan_, collective::deadline_after(patience_)));
  const auto nodes = collective::maximal_nodes(all_lanes_, hosted_);
  TANDEM_CHECK(nodes.size() == reducer_->partials());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    trees_.emplace_back(nodes[i].size(), reducer_->partial(i));
  return {};
}

void Stepper::begin_step() {
  tree_ = 0;
  final_from_ = parameters_;
  told_ = 0;
  told_status_ = {};
}

Stepper::Stepper(const job::Job& job, model::Model& model, Trainable trainable,
                 std::unique_ptr<optim::Optimizer> optimizer)
    : seed_(job.train.seed),
      clip_(job.train.clip),
      trainable_(std::move(trainable.parameters)),
      live_buffers_(std::move(trainable.buffers)),
      all_lanes_(job.lanes()),
      patience_(patience_of(job.cluster)),
      parameters_(static_cast<std::size_t>(model.blueprint().parameters)),
      tail_(parameters_ + static_cast<std::size_t>(model.blueprint().buffers)),
      wishes_(tail_ + static_cast<std::size_t>(all_lanes_) * kLaneSumFloats),
      floats_(wishes_ + kWishFloats),
      plan_{all_lanes_, floats_, make_buckets(parameters_, floats_, job.cluster.bucket_bytes),
            /*in_pieces=*/clip_.value <= 0 && clip_.norm <= 0, patience_},
      model_(model),
      optimizer_(std::move(optimizer)),
      clipped_(clip_.value > 0 ? parameters_ : 0),
      scratch_(kPiece),
      told_sums_(floats_ - tail_),
      statistics_(tail_ - parameters_) {}

Status Stepper::run_lane(const data::Batch& batch, std::int64_t step, std::int64_t lane,
                         std::int64_t step_samples) {
  if (lane == hosted_.begin) TANDEM_TRY(reducer_->release(collective::deadline_after(patience_)));
  LaneTree& tree = trees_[tree_];
  const std::span<float> memory = tree.next();
  const bool last = tree.is_last();
  model::LossSums sums;
  if (batch.size == 0) {
    std::fill(memory.begin(), memory.end(), 0.0F);
    if (last) part_ready(0, parameters_);
  } else {
    TANDEM_ASSIGN(sums, compute(batch, step, lane, step_samples, memory));
  }
  tail_ready(lane, sums, memory);
  if (last) {
    tree.finish();
    ++tree_;
  } else {
    tree.push();
  }
  return told_status_;
}

Result<model::LossSums> Stepper::compute(const data::Batch& batch, std::int64_t step,
                                         std::int64_t lane, std::int64_t step_samples,
                                         std::span<float> memory) {
  model::LaneOutput output{
      memory.first(parameters_), memory.subspan(parameters_, tail_ - parameters_), {}};
  if (trees_[tree_].is_last()) {
    output.ready = [this](std::int64_t begin, std::int64_t end) {
      part_ready(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    };
  }
  const auto begin = std::chrono::steady_clock::now();
  auto sums = model_.forward_backward(batch, 1.0F / static_cast<float>(step_samples),
                                      {seed_, step, lane}, output);
  computed_ += std::chrono::steady_clock::now() - begin;
  ++computed_lanes_;
  return sums;
}

double Stepper::take_lane_seconds() {
  const double seconds = std::chrono::duration<double>(std::exchange(computed_, {})).count();
  const std::int64_t lanes = std::exchange(computed_lanes_, 0);
  return lanes == 0 ? 0 : seconds / static_cast<double>(lanes);
}

// Gradients [begin, end) of a tree's last lane are complete. Once that is so for the last tree too,
// the reducer hears of every bucket in them.
void Stepper::part_ready(std::size_t begin, std::size_t end) {
  trees_[tree_].push_last(begin, end);
  if (tree_ + 1 < trees_.size()) return;
  TANDEM_CHECK(end == final_from_);  // Backward goes from the last block to the first.
  final_from_ = begin;
  std::size_t more = 0;
  while (told_ + more + 1 < plan_.buckets.size() &&
         plan_.buckets[told_ + more].begin >= final_from_)
    ++more;
  if (more == 0) return;
  told_ += more;
  if (told_status_.ok()) told_status_ = reducer_->ready(more);
}

// What follows the gradients, which ends the lane.
void Stepper::tail_ready(std::int64_t lane, const model::LossSums& sums, std::span<float> memory) {
  const std::span<float> tail = memory.subspan(tail_);
  std::fill(tail.begin(), tail.end(), 0.0F);
  encode_sums(sums, tail.subspan(static_cast<std::size_t>(lane) * kLaneSumFloats, kLaneSumFloats));
  const bool last_of_all = lane + 1 == hosted_.end;
  if (last_of_all && wish_ != Wish::kGoOn)
    tail[wishes_ - tail_ + static_cast<std::size_t>(wish_) - 1] = 1;
  if (!trees_[tree_].is_last()) return;
  trees_[tree_].push_last(parameters_, floats_);
  if (last_of_all && told_status_.ok())
    told_status_ = reducer_->ready(plan_.buckets.size() - told_);
}

void Stepper::take(collective::Bucket at, std::span<float> to) {
  while (at.begin < at.end) {
    const std::span<const float> piece = reducer_->piece(at, scratch_);
    std::copy(piece.begin(), piece.end(), to.begin());
    to = to.subspan(piece.size());
    at.begin += piece.size();
  }
}

StepOutcome Stepper::read_tail() {
  take({tail_, floats_}, told_sums_);
  StepOutcome outcome;
  for (std::int64_t lane = 0; lane < all_lanes_; ++lane) {
    outcome.sums.add(
        decode_sums(std::span<const float>(told_sums_)
                        .subspan(static_cast<std::size_t>(lane) * kLaneSumFloats, kLaneSumFloats)));
  }
  for (const Wish wish : {Wish::kRegroup, Wish::kStop}) {
    if (told_sums_[wishes_ - tail_ + static_cast<std::size_t>(wish) - 1] > 0) outcome.wish = wish;
  }
  return outcome;
}

optim::Clipping Stepper::clip() {
  // A plan that is not in pieces gives all of them at once.
  std::span<const float> gradients = reducer_->piece({0, parameters_}, {});
  if (clip_.value > 0) {
    // The sum is everybody's, so it is not changed where it lies.
    std::copy(gradients.begin(), gradients.end(), clipped_.begin());
    optim::clip_by_value(clipped_, clip_, trainable_);
    gradients = clipped_;
  }
  return optim::clip_by_norm(gradients, clip_, trainable_);
}

optim::Updated Stepper::update(double lr, double gradient_scale) {
  optim::Updated result = optim::Updated::kFinite;
  optimizer_->begin(lr, gradient_scale);
  for (const optim::Range& range : trainable_) {
    const auto end = static_cast<std::size_t>(range.end);
    for (auto at = static_cast<std::size_t>(range.begin); at < end;) {
      const std::span<const float> piece =
          clipped_.empty() ? reducer_->piece({at, end}, scratch_)
                           : std::span<const float>(clipped_).subspan(at, end - at);
      const optim::Range part{static_cast<std::int64_t>(at),
                              static_cast<std::int64_t>(at + piece.size())};
      if (optimizer_->update(model_.parameters(), piece, part) == optim::Updated::kNotFinite)
        result = optim::Updated::kNotFinite;
      at += piece.size();
    }
  }
  return result;
}

void Stepper::update_statistics() {
  take({parameters_, tail_}, statistics_);
  for (const optim::Range& range : live_buffers_) {
    const auto begin = static_cast<std::size_t>(range.begin);
    const auto count = static_cast<std::size_t>(range.end - range.begin);
    model::update_buffers(model_.buffers().subspan(begin, count),
                          std::span<const float>(statistics_).subspan(begin, count));
  }
}

Result<StepOutcome> Stepper::finish_step(std::int64_t step, double lr) {
  begin_step();
  Status gathered = reducer_->gather(collective::deadline_after(patience_));
  if (!gathered.ok()) return std::move(gathered).error().within(fmt::format("step {}", step + 1));
  StepOutcome outcome = read_tail();
  if (!std::isfinite(outcome.sums.loss)) return diverged(step);
  optim::Clipping clipping;
  if (!plan_.in_pieces) clipping = clip();
  if (!std::isfinite(clipping.norm)) return diverged(step);
  if (update(lr, clipping.scale) == optim::Updated::kNotFinite) return diverged(step);
  update_statistics();
  reducer_->taken();
  model_.parameters_changed();
  outcome.grad_norm = clipping.norm;
  return outcome;
}

Error Stepper::diverged(std::int64_t step) {
  std::vector<float> gradients(parameters_);
  take({0, parameters_}, gradients);
  constexpr const char* kAdvice =
      "lower train.optimizer.lr, add train.clip.norm or train.schedule.warmup_steps, or look for "
      "such values in the data";
  const auto parameters = std::span<const float>(model_.parameters());
  const auto name = [&](std::size_t index) {
    return slot_at(model_.blueprint(), arch::SlotKind::kParameter, static_cast<std::int64_t>(index))
        .name;
  };
  std::string what = "the loss is not a finite number";
  if (const std::size_t bad = first_not_finite(gradients); bad < parameters_) {
    what = fmt::format("the gradient of `{}` is {}", name(bad), gradients[bad]);
  } else if (const std::size_t worse = first_not_finite(parameters); worse < parameters.size()) {
    what = fmt::format("the update made `{}` {}", name(worse), parameters[worse]);
  }
  return Error(Code::kDiverged,
               fmt::format("training diverged at step {}: {}; {}", step + 1, what, kAdvice));
}

}  // namespace tandem::train
