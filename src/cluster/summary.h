// What a report says of a run, from what its workers said. Pure functions, but for the clock that
// says when the run began.
#pragma once

#include <span>

#include "cluster/recorder.h"
#include "cluster/report.h"
#include "cluster/run.h"

namespace tandem::cluster {

// Of a run that begins now.
Report blank_report(const RunRequest& request);

void fail(Report& report, Error error);

// What was done: as a worker summed it up, or as far as it had told.
void add_work(Report& report, const Words& words, const std::optional<wire::Evaluated>& tested,
              const RunDirectory& directory);

// Bytes that the workers told of.
void add_traffic(Report& report, std::span<const Words> words);

}  // namespace tandem::cluster
