#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

#include "base/check.h"
#include "base/simd.h"
#include "optim/factors.h"
#include "optim/kernels.h"

namespace tandem::optim {
namespace {

using kernels::AdamFactors;
using kernels::NoPenalty;
using kernels::Penalty;

// Gradients that a kernel adds as it reads them.
template <std::size_t kTerms>
struct Sum {
  std::array<const float*, kTerms> terms;

  [[gnu::always_inline]] float operator[](std::size_t i) const {
    if constexpr (kTerms == 2) return terms[0][i] + terms[1][i];
    if constexpr (kTerms == 3) return (terms[0][i] + terms[1][i]) + terms[2][i];
    if constexpr (kTerms == 4) return (terms[0][i] + terms[1][i]) + (terms[2][i] + terms[3][i]);
  }
};

// Asks for floats [begin, end) of the terms that other cores may have written: of two, the second.
template <std::size_t kTerms>
[[gnu::always_inline]] inline void ask_for(const float* const* terms, std::size_t begin,
                                           std::size_t end) {
  constexpr std::size_t kLine = 16;
  for (std::size_t at = begin; at < end; at += kLine) {
    for (std::size_t i = kTerms == 2 ? 1 : 0; i < kTerms; ++i) __builtin_prefetch(terms[i] + at);
  }
}

// A core does not look as far ahead by itself as another core's cache is away, and what it is asked
// for at once beyond some 64 lines it forgets. So terms are worked on in small blocks, and asked
// for some blocks before.
template <std::size_t kTerms, typename Penalties, typename Kernel>
[[gnu::always_inline]] inline bool run_blocks(const float* const* terms, std::size_t count,
                                              const Penalties& penalty, Kernel kernel) {
  constexpr std::size_t kBlock = 128, kAhead = 1024 / (kTerms - 1) / kBlock * kBlock;
  ask_for<kTerms>(terms, 0, std::min(kAhead, count));
  bool found = false;
  for (std::size_t at = 0; at < count; at += kBlock) {
    ask_for<kTerms>(terms, std::min(at + kAhead, count), std::min(at + kAhead + kBlock, count));
    Sum<kTerms> sum;
    for (std::size_t i = 0; i < kTerms; ++i) sum.terms[i] = terms[i] + at;
    found |= kernel(sum, at, std::min(kBlock, count - at), penalty);
  }
  return found;
}

template <typename Penalties, typename Kernel>
[[gnu::always_inline]] inline bool run_terms(std::span<const float* const> terms, std::size_t count,
                                             const Penalties& penalty, Kernel kernel) {
  switch (terms.size()) {
    case 2:
      return run_blocks<2>(terms.data(), count, penalty, kernel);
    case 3:
      return run_blocks<3>(terms.data(), count, penalty, kernel);
    case 4:
      return run_blocks<4>(terms.data(), count, penalty, kernel);
    default:
      return kernel(terms[0], std::size_t{0}, count, penalty);
  }
}

// Calls a kernel with the plainest loop that will do: with gradients, the first index and number of
// those that they belong to, and the penalty.
template <typename Kernel>
[[gnu::always_inline]] inline bool run(std::span<const float* const> terms, std::size_t count,
                                       const Penalty& penalty, Kernel kernel) {
  return penalty.is_none() ? run_terms(terms, count, NoPenalty(), kernel)
                           : run_terms(terms, count, penalty, kernel);
}

TANDEM_SIMD bool sgd_kernel(float* weights, std::span<const float* const> terms, std::size_t count,
                            Penalty penalties, float lr) {
  return run(terms, count, penalties,
             [=](auto gradients, std::size_t at, std::size_t size, auto penalty) {
               return kernels::sgd(weights + at, gradients, size, penalty, lr);
             });
}

TANDEM_SIMD bool sgd_from_kernel(const float* old, float* weights, const float* values,
                                 std::size_t count, Penalty penalties, float lr) {
  return run(std::span(&values, 1), count, penalties,
             [=](auto gradients, std::size_t at, std::size_t size, auto penalty) {
               return kernels::sgd_from(old + at, weights + at, gradients, size, penalty, lr);
             });
}

TANDEM_SIMD bool momentum_kernel(float* weights, std::span<const float* const> terms,
                                 float* momenta, std::size_t count, Penalty penalties, float lr,
                                 float momentum) {
  return run(terms, count, penalties,
             [=](auto gradients, std::size_t at, std::size_t size, auto penalty) {
               return kernels::sgd_momentum(weights + at, gradients, momenta + at, size, penalty,
                                            lr, momentum);
             });
}

TANDEM_SIMD bool nesterov_kernel(float* weights, std::span<const float* const> terms,
                                 float* momenta, std::size_t count, Penalty penalties, float lr,
                                 float momentum) {
  return run(terms, count, penalties,
             [=](auto gradients, std::size_t at, std::size_t size, auto penalty) {
               return kernels::sgd_nesterov(weights + at, gradients, momenta + at, size, penalty,
                                            lr, momentum);
             });
}

TANDEM_SIMD bool adam_kernel(float* weights, std::span<const float* const> terms, float* averages,
                             float* squares, std::size_t count, Penalty penalties,
                             AdamFactors factors) {
  return run(terms, count, penalties,
             [=](auto gradients, std::size_t at, std::size_t size, auto penalty) {
               return kernels::adam(weights + at, gradients, averages + at, squares + at, size,
                                    penalty, factors);
             });
}

TANDEM_SIMD bool adagrad_kernel(float* weights, std::span<const float* const> terms, float* sums,
                                std::size_t count, Penalty penalties, float lr, float epsilon) {
  return run(
      terms, count, penalties, [=](auto gradients, std::size_t at, std::size_t size, auto penalty) {
        return kernels::adagrad(weights + at, gradients, sums + at, size, penalty, lr, epsilon);
      });
}

std::size_t length(Range range) {
  return static_cast<std::size_t>(range.end - range.begin);
}

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerConfig& config, std::int64_t size)
      : Optimizer(size),
        config_(config),
        momenta_(config.momentum != 0 ? static_cast<std::size_t>(size) : 0) {}

  std::vector<StateTensor> state() override {
    if (config_.momentum == 0) return {};
    return {{"momentum", momenta_}};
  }

 private:
  void begin_step(double lr, double gradient_scale, std::int64_t /*steps*/) override {
    penalty_ = make_penalty(config_, gradient_scale);
    lr_ = static_cast<float>(lr);
  }

  bool apply(float* parameters, Terms slopes, Range range) override {
    float* weights = parameters + range.begin;
    if (config_.momentum == 0) {
      return sgd_kernel(weights, slopes, length(range), penalty_, lr_);
    }
    float* momenta = momenta_.data() + range.begin;
    const auto momentum = static_cast<float>(config_.momentum);
    const auto kernel = config_.nesterov ? nesterov_kernel : momentum_kernel;
    return kernel(weights, slopes, momenta, length(range), penalty_, lr_, momentum);
  }

  bool apply_from(const float* old, float* parameters, const float* slopes, Range range) override {
    if (config_.momentum != 0) return Optimizer::apply_from(old, parameters, slopes, range);
    return sgd_from_kernel(old + range.begin, parameters + range.begin, slopes, length(range),
                           penalty_, lr_);
  }

  const OptimizerConfig config_;
  std::vector<float> momenta_;

  // Of the step that runs.
  Penalty penalty_;
  float lr_ = 0;
};

// adam and adamw: they differ in where the weight decay goes.
class Adam final : public Optimizer {
 public:
  Adam(const OptimizerConfig& config, std::int64_t size)
      : Optimizer(size),
        config_(config),
        averages_(static_cast<std::size_t>(size)),
        squares_(static_cast<std::size_t>(size)) {}

  std::vector<StateTensor> state() override {
    return {{"exp_avg", averages_}, {"exp_avg_sq", squares_}};
  }

 private:
  void begin_step(double lr, double gradient_scale, std::int64_t steps) override {
    penalty_ = make_penalty(config_, gradient_scale);
    factors_ = make_adam_factors(config_, lr, steps);
  }

  bool apply(float* parameters, Terms slopes, Range range) override {
    return adam_kernel(parameters + range.begin, slopes, averages_.data() + range.begin,
                       squares_.data() + range.begin, length(range), penalty_, factors_);
  }

  const OptimizerConfig config_;
  std::vector<float> averages_;
  std::vector<float> squares_;

  // Of the step that runs.
  Penalty penalty_;
  AdamFactors factors_;
};

class Adagrad final : public Optimizer {
 public:
  Adagrad(const OptimizerConfig& config, std::int64_t size)
      : Optimizer(size), config_(config), sums_(static_cast<std::size_t>(size)) {}

  std::vector<StateTensor> state() override { return {{"sum", sums_}}; }

 private:
  void begin_step(double lr, double gradient_scale, std::int64_t /*steps*/) override {
    penalty_ = make_penalty(config_, gradient_scale);
    lr_ = static_cast<float>(lr);
  }

  bool apply(float* parameters, Terms slopes, Range range) override {
    return adagrad_kernel(parameters + range.begin, slopes, sums_.data() + range.begin,
                          length(range), penalty_, lr_, static_cast<float>(config_.epsilon));
  }

  const OptimizerConfig config_;
  std::vector<float> sums_;

  // Of the step that runs.
  Penalty penalty_;
  float lr_ = 0;
};

Error out_of_range(std::string_view key, double value, std::string_view expected) {
  return Error(Code::kInvalidArgument,
               fmt::format("optimizer.{} is {}, but must be {}", key, value, expected));
}

// Comparisons are written so that NaN fails them.
Status check(const OptimizerConfig& config) {
  const auto from_zero = [](double value) { return value >= 0 && std::isfinite(value); };
  const auto below_one = [](double value) { return value >= 0 && value < 1; };
  if (!from_zero(config.lr)) return out_of_range("lr", config.lr, "0 or more");
  if (!from_zero(config.weight_decay)) {
    return out_of_range("weight_decay", config.weight_decay, "0 or more");
  }
  if (!from_zero(config.l1)) return out_of_range("l1", config.l1, "0 or more");
  if (config.kind == OptimizerKind::kSgd) {
    if (!below_one(config.momentum)) {
      return out_of_range("momentum", config.momentum, "at least 0 and less than 1");
    }
    if (config.nesterov && config.momentum == 0) {
      return Error(
          Code::kInvalidArgument,
          "optimizer.nesterov needs optimizer.momentum above 0; set it, for example to 0.9");
    }
    return {};
  }
  if (!from_zero(config.epsilon)) return out_of_range("epsilon", config.epsilon, "0 or more");
  if (config.kind == OptimizerKind::kAdagrad) return {};
  if (!below_one(config.beta1)) {
    return out_of_range("beta1", config.beta1, "at least 0 and less than 1");
  }
  if (!below_one(config.beta2)) {
    return out_of_range("beta2", config.beta2, "at least 0 and less than 1");
  }
  return {};
}

std::unique_ptr<Optimizer> make(const OptimizerConfig& config, std::int64_t size) {
  switch (config.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<Sgd>(config, size);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return std::make_unique<Adam>(config, size);
    case OptimizerKind::kAdagrad:
      return std::make_unique<Adagrad>(config, size);
  }
  TANDEM_CHECK(false && "an OptimizerKind without a class");
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Optimizer>> Optimizer::create(const OptimizerConfig& config,
                                                     std::int64_t size) {
  TANDEM_CHECK(size >= 0);
  TANDEM_TRY(check(config));
  try {
    return make(config, size);
  } catch (const std::bad_alloc&) {
    return Error(
        Code::kOutOfSpace,
        fmt::format("the optimizer's state for {} parameters does not fit into memory; use "
                    "a smaller model, or sgd without momentum, which keeps none",
                    size));
  }
}

void Optimizer::begin(double lr, double gradient_scale) {
  ++steps_;
  begin_step(lr, gradient_scale, steps_);
}

Updated Optimizer::update(std::span<float> parameters, std::span<const float> gradients,
                          Range part) {
  TANDEM_CHECK(std::size(gradients) == length(part));
  const float* const values = gradients.data();
  return update(parameters, std::span(&values, 1), part);
}

Updated Optimizer::update(std::span<float> parameters, std::span<const float* const> terms,
                          Range part) {
  TANDEM_CHECK(std::ssize(parameters) == size_ && !terms.empty() && terms.size() <= kMostTerms);
  TANDEM_CHECK(0 <= part.begin && part.begin <= part.end && part.end <= size_);
  return apply(parameters.data(), terms, part) ? Updated::kNotFinite : Updated::kFinite;
}

Updated Optimizer::update_from(std::span<const float> old, std::span<float> parameters,
                               std::span<const float> gradients, Range part) {
  TANDEM_CHECK(std::ssize(old) == size_ && std::ssize(parameters) == size_);
  TANDEM_CHECK(std::size(gradients) == length(part));
  TANDEM_CHECK(0 <= part.begin && part.begin <= part.end && part.end <= size_);
  return apply_from(old.data(), parameters.data(), gradients.data(), part) ? Updated::kNotFinite
                                                                           : Updated::kFinite;
}

bool Optimizer::apply_from(const float* old, float* parameters, const float* slopes, Range range) {
  // In parts that stay in the first-level cache between the copy and the update.
  constexpr std::int64_t kPart = 2048;
  bool found = false;
  for (Range part = range; part.begin < range.end; part.begin = part.end) {
    part.end = std::min(range.end, part.begin + kPart);
    std::copy_n(old + part.begin, length(part), parameters + part.begin);
    const float* const values = slopes + (part.begin - range.begin);
    found |= apply(parameters, std::span(&values, 1), part);
  }
  return found;
}

Updated Optimizer::step(std::span<float> parameters, std::span<const float> gradients, double lr,
                        std::span<const Range> trainable, double gradient_scale) {
  TANDEM_CHECK(std::ssize(gradients) == size_);
  begin(lr, gradient_scale);
  Updated result = Updated::kFinite;
  for (const Range& range : trainable) {
    TANDEM_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= size_);
    const auto part = gradients.subspan(static_cast<std::size_t>(range.begin), length(range));
    if (update(parameters, part, range) == Updated::kNotFinite) result = Updated::kNotFinite;
  }
  return result;
}

Updated Optimizer::step(std::span<float> parameters, std::span<const float> gradients, double lr,
                        double gradient_scale) {
  const Range whole{0, size_};
  return step(parameters, gradients, lr, std::span(&whole, 1), gradient_scale);
}

void Optimizer::set_steps(std::int64_t steps) {
  TANDEM_CHECK(steps >= 0);
  steps_ = steps;
}

}  // namespace tandem::optim
