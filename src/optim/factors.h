// What the loops of optim/kernels.h multiply and divide by in one step, made in double from the
// configuration. Whoever takes them from here has the bits of optim/optimizer.h, wherever its
// parameters and state lie. Pure functions.
#pragma once

#include <cstdint>

#include "optim/config.h"
#include "optim/kernels.h"

namespace tandem::optim {

// The configuration's l1 and weight decay; adamw's decay is in its AdamFactors instead.
kernels::Penalty make_penalty(const OptimizerConfig& config, double gradient_scale);

// Of adam and adamw. `steps` counts the step that is to be done. REQUIRES: steps >= 1.
kernels::AdamFactors make_adam_factors(const OptimizerConfig& config, double lr,
                                       std::int64_t steps);

}  // namespace tandem::optim
