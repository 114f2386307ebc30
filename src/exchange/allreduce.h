// The exchange in which every worker gets the sum over all lanes and updates its own copy of the
// parameters.
#pragma once

#include <memory>

#include "base/result.h"
#include "collective/group.h"
#include "exchange/exchange.h"
#include "optim/optimizer.h"

namespace tandem::exchange {

// Every worker of the group calls this with the same plan. The group and the optimizer must outlive
// it.
Result<std::unique_ptr<Exchange>> make_allreduce(const Plan& plan, collective::Group& group,
                                                 optim::Optimizer& optimizer, Deadline deadline);

}  // namespace tandem::exchange
