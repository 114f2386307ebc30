#include "optim/factors.h"

#include <cmath>

#include "optim/portable.h"

namespace tandem::optim {

kernels::Penalty make_penalty(const OptimizerConfig& config, double gradient_scale) {
  const double decay = config.kind == OptimizerKind::kAdamW ? 0 : config.weight_decay;
  return {static_cast<float>(gradient_scale), static_cast<float>(config.l1),
          static_cast<float>(decay)};
}

kernels::AdamFactors make_adam_factors(const OptimizerConfig& config, double lr,
                                       std::int64_t steps) {
  const double correction1 = 1 - power(config.beta1, steps);
  const double correction2 = 1 - power(config.beta2, steps);
  kernels::AdamFactors factors;
  if (config.kind == OptimizerKind::kAdamW) {
    factors.keep = static_cast<float>(1 - lr * config.weight_decay);
  }
  factors.beta1 = static_cast<float>(config.beta1);
  factors.one_minus_beta1 = static_cast<float>(1 - config.beta1);
  factors.beta2 = static_cast<float>(config.beta2);
  factors.one_minus_beta2 = static_cast<float>(1 - config.beta2);
  factors.root_correction2 = static_cast<float>(std::sqrt(correction2));
  factors.epsilon = static_cast<float>(config.epsilon);
  factors.step_size = static_cast<float>(lr / correction1);
  return factors;
}

}  // namespace tandem::optim
