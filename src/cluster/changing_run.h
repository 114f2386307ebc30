// A run on this machine whose workers may be lost and replaced while it goes on: the coordinator
// and one node in this process. Everything happens on the calling thread.
#pragma once

#include "base/result.h"
#include "cluster/recorder.h"
#include "cluster/run.h"

namespace tandem::cluster {

// Whether the job's workers are ours to replace. Those that a launcher started are not.
bool may_change(const RunRequest& request);

// Runs the job to its end and writes how it ended into the report. An Error when something here
// failed: the disk, the start of a process. `recorder` has no workers yet.
Status run_changing(const RunRequest& request, const RunDirectory& directory, SignalQueue& signals,
                    RunView& view, Recorder& recorder, Report& report);

}  // namespace tandem::cluster
