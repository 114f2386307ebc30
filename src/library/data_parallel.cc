#include "tandem/data_parallel.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <optional>
#include <vector>

#include "library/agreement.h"
#include "library/bucket_plan.h"
#include "library/buffer_mean.h"
#include "library/failure.h"
#include "library/parameter_gradient.h"
#include "library/step_memory.h"
#include "library/tensors.h"

namespace tandem::detail {
namespace {

using library::BufferMean;
using library::NamedTensor;
using library::ParameterGradient;
using library::refuse;
using library::StepMemory;

}  // namespace

// One step goes from the first gradient of a backward to the callback at its end, which the
// autograd engine runs before backward() returns.
class GradientMean::State : public std::enable_shared_from_this<GradientMean::State> {
 public:
  State(torch::nn::Module& module, Group group, const DataParallelOptions& options);

  void register_hooks();
  void give_back();

  std::shared_ptr<int> quiet = std::make_shared<int>(0);  // How many NoSync there are.
  std::size_t during_backward = 0;
  std::size_t bucket_count() const { return plan_.reduce.buckets.size(); }

 private:
  class StepEnd;

  void on_gradient(std::size_t parameter);
  void begin_step();
  void end_step();
  void abandon(const std::string& why);
  void hand_over();

  Group group_;
  std::vector<ParameterGradient>
      parameters_;  // Last registered first, as backward makes gradients.
  std::vector<NamedTensor> frozen_;
  std::vector<BufferMean> buffers_;
  library::BucketPlan plan_;
  std::shared_ptr<StepMemory> memory_;

  bool open_ = false;                 // A step is under way.
  std::vector<bool> arrived_;         // In this step, by parameter.
  std::vector<std::size_t> missing_;  // Gradients, by bucket.
  std::size_t next_ = 0;              // The first bucket that was not handed over.
  std::optional<std::string> broken_;
};

// Goes with the engine's list of callbacks: gone without having run, backward has thrown.
class GradientMean::State::StepEnd {
 public:
  explicit StepEnd(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~StepEnd() {
    if (state_) state_->abandon("an earlier backward threw before its end");
  }
  StepEnd(const StepEnd&) = delete;
  StepEnd& operator=(const StepEnd&) = delete;

  void run() { std::exchange(state_, nullptr)->end_step(); }

 private:
  std::shared_ptr<State> state_;
};

GradientMean::State::State(torch::nn::Module& module, Group group,
                           const DataParallelOptions& options)
    : group_(std::move(group)) {
  const library::Tensors tensors(module);
  std::vector<std::string> lines = tensors.describe();
  lines.push_back(fmt::format("buckets of {} and {} bytes, buffers {}", options.first_bucket_bytes,
                              options.bucket_bytes, static_cast<int>(options.buffers)));
  library::demand_agreement(group_, lines, "ranks have different modules");
  tensors.broadcast(group_);

  frozen_ = tensors.frozen;
  std::vector<std::size_t> sizes;
  for (auto it = tensors.trained.rbegin(); it != tensors.trained.rend(); ++it) {
    parameters_.emplace_back(*it);
    sizes.push_back(static_cast<std::size_t>(it->tensor.numel()));
  }
  for (const NamedTensor& named : tensors.buffers) {
    if (options.buffers != Buffers::kAverage || group_.size() == 1) break;
    if (named.tensor.scalar_type() != torch::kFloat || named.tensor.numel() == 0) continue;
    buffers_.emplace_back(named.tensor);
    sizes.push_back(static_cast<std::size_t>(named.tensor.numel()));
  }
  plan_ = library::plan_buckets(sizes, {options.first_bucket_bytes, options.bucket_bytes},
                                group_.size());
  plan_.reduce.patience = group_.state()->options.timeout;
  memory_ = std::make_shared<StepMemory>(group_.state(), plan_.reduce);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].lie_in(memory_, plan_.offsets[i]);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i].lie_in(memory_, plan_.offsets[parameters_.size() + i]);
}

void GradientMean::State::register_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // Weak: a graph may outlive us, and with it the hook.
    parameters_[i].on_arrival([weak = weak_from_this(), i] {
      if (const auto state = weak.lock()) state->on_gradient(i);
    });
  }
}

void GradientMean::State::give_back() {
  for (ParameterGradient& parameter : parameters_) parameter.give_back();
}

void GradientMean::State::on_gradient(std::size_t parameter) {
  if (*quiet > 0) return;
  if (broken_) throw Failure(Failure::Code::kCancelled, *broken_);
  if (!open_) begin_step();
  if (arrived_[parameter]) {
    refuse(fmt::format("parameter `{}` got two gradients in one backward",
                       parameters_[parameter].name()));
  }
  arrived_[parameter] = true;
  parameters_[parameter].adopt();
  --missing_[plan_.bucket[parameter]];
  hand_over();
}

void GradientMean::State::begin_step() {
  group_.state()->calls.hold();
  open_ = true;
  next_ = 0;
  arrived_.assign(parameters_.size(), false);
  // Buffers count too: they are filled in at the end, so their buckets are kept back till then.
  missing_.assign(plan_.reduce.buckets.size(), 0);
  for (const std::size_t bucket : plan_.bucket) ++missing_[bucket];
  torch::autograd::Engine::get_default_engine().queue_callback(
      [end = std::make_shared<StepEnd>(shared_from_this())] { end->run(); });
}

void GradientMean::State::hand_over() {
  std::size_t count = 0;
  while (next_ + count < missing_.size() && missing_[next_ + count] == 0) ++count;
  if (count == 0) return;
  next_ += count;
  memory_->ready(count);
}

void GradientMean::State::end_step() {
  const torch::NoGradGuard no_grad;
  during_backward = next_;
  try {
    for (const NamedTensor& named : frozen_) {
      if (named.tensor.requires_grad())
        refuse(fmt::format("parameter `{}` was frozen when DataParallel was made", named.name));
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!arrived_[i]) parameters_[i].adopt();  // Unused in this backward.
    }
    for (BufferMean& buffer : buffers_) buffer.fill();
    missing_.assign(missing_.size(), 0);
    hand_over();
    memory_->take_mean();
    for (BufferMean& buffer : buffers_) buffer.take();
  } catch (const std::exception& e) {
    abandon(fmt::format("an earlier backward failed: {}", e.what()));
    throw;
  }
  open_ = false;
  group_.state()->calls.release();
}

void GradientMean::State::abandon(const std::string& why) {
  broken_ = why + "; its DataParallel is of no more use";
  if (std::exchange(open_, false)) group_.state()->calls.release();
}

GradientMean::GradientMean(torch::nn::Module& module, Group group,
                           const DataParallelOptions& options)
    : state_(std::make_shared<State>(module, std::move(group), options)) {
  state_->register_hooks();
}

GradientMean::~GradientMean() {
  if (state_) state_->give_back();
}

NoSync GradientMean::no_sync() const {
  return NoSync(state_->quiet);
}

std::size_t GradientMean::bucket_count() const {
  return state_->bucket_count();
}

std::size_t GradientMean::buckets_during_backward() const {
  return state_->during_backward;
}

}  // namespace tandem::detail
