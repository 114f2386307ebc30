#include "ps/row_rule.h"

#include "base/check.h"
#include "optim/factors.h"
#include "optim/optimizer.h"

namespace tandem::ps {
namespace {

namespace kernels = optim::kernels;
using optim::OptimizerKind;

std::size_t state_arrays(const optim::OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::kSgd:
      return config.momentum != 0 ? 1 : 0;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kAdagrad:
      return 1;
  }
  TANDEM_CHECK(false && "an OptimizerKind without state_arrays");
  return 0;
}

}  // namespace

// One function for each optimizer, with and without penalties, and for rows of one float, which
// need no loop.
struct RowRule::Loops {
  enum class Width : std::uint8_t { kOne, kAny };

  template <typename Penalties, Width kWidth, typename Kernel>
  static bool run(const RowRule& rule, float* row, const float* gradient, Kernel kernel) {
    const std::size_t width = kWidth == Width::kOne ? 1 : rule.width_;
    if constexpr (std::is_same_v<Penalties, kernels::Penalty>) {
      return kernel(row, gradient, width, rule.penalty_);
    } else {
      return kernel(row, gradient, width, Penalties());
    }
  }

  template <typename Penalties, Width kWidth>
  static bool sgd(const RowRule& rule, float* row, const float* gradient) {
    return run<Penalties, kWidth>(
        rule, row, gradient, [&](float* w, const float* g, std::size_t width, Penalties penalty) {
          return kernels::sgd(w, g, width, penalty, rule.lr_);
        });
  }

  template <typename Penalties, Width kWidth>
  static bool momentum(const RowRule& rule, float* row, const float* gradient) {
    const auto momentum = static_cast<float>(rule.config_.momentum);
    return run<Penalties, kWidth>(
        rule, row, gradient, [&](float* w, const float* g, std::size_t width, Penalties penalty) {
          return kernels::sgd_momentum(w, g, w + width, width, penalty, rule.lr_, momentum);
        });
  }

  template <typename Penalties, Width kWidth>
  static bool nesterov(const RowRule& rule, float* row, const float* gradient) {
    const auto momentum = static_cast<float>(rule.config_.momentum);
    return run<Penalties, kWidth>(
        rule, row, gradient, [&](float* w, const float* g, std::size_t width, Penalties penalty) {
          return kernels::sgd_nesterov(w, g, w + width, width, penalty, rule.lr_, momentum);
        });
  }

  template <typename Penalties, Width kWidth>
  static bool adam(const RowRule& rule, float* row, const float* gradient) {
    return run<Penalties, kWidth>(
        rule, row, gradient, [&](float* w, const float* g, std::size_t width, Penalties penalty) {
          return kernels::adam(w, g, w + width, w + 2 * width, width, penalty, rule.factors_);
        });
  }

  template <typename Penalties, Width kWidth>
  static bool adagrad(const RowRule& rule, float* row, const float* gradient) {
    const auto epsilon = static_cast<float>(rule.config_.epsilon);
    return run<Penalties, kWidth>(
        rule, row, gradient, [&](float* w, const float* g, std::size_t width, Penalties penalty) {
          return kernels::adagrad(w, g, w + width, width, penalty, rule.lr_, epsilon);
        });
  }

  template <typename Penalties, Width kWidth>
  static Loop choose(const optim::OptimizerConfig& config) {
    switch (config.kind) {
      case OptimizerKind::kSgd:
        if (config.momentum == 0) return sgd<Penalties, kWidth>;
        return config.nesterov ? nesterov<Penalties, kWidth> : momentum<Penalties, kWidth>;
      case OptimizerKind::kAdam:
      case OptimizerKind::kAdamW:
        return adam<Penalties, kWidth>;
      case OptimizerKind::kAdagrad:
        return adagrad<Penalties, kWidth>;
    }
    TANDEM_CHECK(false && "an OptimizerKind without a loop");
    return nullptr;
  }

  template <typename Penalties>
  static Loop choose(const optim::OptimizerConfig& config, std::size_t width) {
    return width == 1 ? choose<Penalties, Width::kOne>(config)
                      : choose<Penalties, Width::kAny>(config);
  }
};

Result<RowRule> RowRule::create(const optim::OptimizerConfig& config, std::size_t width) {
  TANDEM_CHECK(width >= 1);
  // The one place that knows what is in range.
  if (auto checked = optim::Optimizer::create(config, 0); !checked.ok()) {
    return std::move(checked).error();
  }
  return RowRule(config, width);
}

RowRule::RowRule(const optim::OptimizerConfig& config, std::size_t width)
    : config_(config), width_(width), words_(width * (1 + state_arrays(config))) {
  begin_step(config.lr, 1);
}

void RowRule::begin_step(double lr, std::int64_t step) {
  lr_ = static_cast<float>(lr);
  penalty_ = optim::make_penalty(config_, 1);
  if (config_.kind == OptimizerKind::kAdam || config_.kind == OptimizerKind::kAdamW) {
    factors_ = optim::make_adam_factors(config_, lr, step);
  }
  loop_ = penalty_.is_none() ? Loops::choose<kernels::NoPenalty>(config_, width_)
                             : Loops::choose<kernels::Penalty>(config_, width_);
}

}  // namespace tandem::ps
