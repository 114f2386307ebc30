// Settings of a job that are fine by themselves and do nothing beside its other settings: a
// staleness without `ssp`, any of [ps] where there are no servers. They are no mistakes, because
// changing `cluster.strategy` alone turns a job from one way to the other, but the user should
// know. Pure.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace tandem::job {

// A sentence for each reason why settings have no effect, which names all of them:
// "`ps.quorum` and `ps.pull` have no effect with cluster.strategy = "allreduce"". Settings that
// have their default are left out.
std::vector<std::string> idle_settings(const Job& job);

}  // namespace tandem::job
