// A whole run inside one worker, alone or as one of a group: data, model, steps, evaluations, the
// end. Reports as it goes;
// returns how it ended. Everything happens on the calling thread, except that batches are prepared
// ahead by others.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "collective/group.h"
#include "job/job.h"
#include "train/reporter.h"

namespace tandem::train {

enum class Rehearsal : std::uint8_t { kNo, kOneStep };

struct TrainRequest {
  job::Job job;
  std::filesystem::path base_directory;  // From which the job's relative paths are taken.
  std::filesystem::path run_directory;   // Where the model goes.
  std::filesystem::path store;           // Where checkpoints go.
  std::filesystem::path resume;          // A checkpoint's directory to go on from, or "".
  Rehearsal rehearsal = Rehearsal::kNo;
  // How long the workers wait for each other before the first step.
  std::chrono::milliseconds start_patience = std::chrono::minutes(2);
};

// Trains until the job ends or `stop` becomes true, saves a last checkpoint and the model, and
// reports Finished. The first worker alone reads and writes files of the run. Reports
// something at least once a second as long as batches are shorter than that. An Error when the job
// does not fit its data, training diverged, or the model could not be saved; it has not been
// reported. `key` then names the job's key that is to blame ("model.layers[2]"), if one is.
Status train(const TrainRequest& request, collective::Group& group, Reporter& reporter,
             const std::atomic<bool>& stop, std::string& key);

}  // namespace tandem::train
