// Mistakes that take more than one key to see: Nesterov without momentum, more lanes than samples
// in a batch. Rules look at a job whose keys are each fine by themselves; see job/read.h for those.
#pragma once

#include "job/job.h"
#include "job/read.h"

namespace tandem::job {

// Adds a mistake for each rule that `job` breaks. A rule about a key that is already known to be
// wrong is left out.
void check_rules(const Job& job, Findings& findings);

}  // namespace tandem::job
