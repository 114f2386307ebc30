// A whole run inside one worker, alone or as one of a group: data, model, steps, evaluations, the
// end. When the group breaks, or shall be another, the worker keeps its state, drops the step under
// way and goes on in the next group. Reports as it goes; returns how it ended. Everything happens
// on the calling thread, except that batches are prepared ahead by others.
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"
#include "train/judge.h"
#include "train/places.h"
#include "train/reporter.h"
#include "train/request.h"

namespace tandem::train {

// Trains until `judge` says that the job ends or `stop` becomes true, saves a last checkpoint and
// the model, and reports Finished. The first worker alone reads and writes files of the run.
// Reports something at least once a second as long as batches are shorter than that. An Error when
// the job does not fit its data, training diverged, or the model could not be saved; it has not
// been reported. `key` then names the job's key that is to blame ("model.layers[2]"), if one is.
Status train(const TrainRequest& request, Places& places, Judge& judge, Reporter& reporter,
             const std::atomic<bool>& stop, std::string& key);

}  // namespace tandem::train
