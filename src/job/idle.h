// Settings of a job that are fine by themselves and do nothing beside its other settings: a
// staleness without `ssp`, any of [ps] where there are no servers, when to make checkpoints of
// which none is kept. They are no mistakes, because changing `cluster.strategy` alone turns a job
// from one way to the other, but the user should know. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"

namespace tandem::job {

// A sentence for each reason why settings have no effect, which names all of them:
// "`ps.quorum` and `ps.pull` have no effect with cluster.strategy = "allreduce"". Settings that
// have their default are left out.
std::vector<std::string> idle_settings(const Job& job);

// Of a training of so many steps: that every touch of a row of sparse tables is dropped, should it
// be so.
std::optional<std::string> rows_never_made(const Job& job, std::int64_t steps);

}  // namespace tandem::job
