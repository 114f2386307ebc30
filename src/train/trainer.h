// A whole run inside one worker: data, model, steps, evaluations, the end. Reports as it goes;
// returns how it ended. Everything happens on the calling thread, except that batches are prepared
// ahead by others.
#pragma once

#include <atomic>
#include <filesystem>

#include "base/result.h"
#include "job/parse.h"
#include "train/reporter.h"

namespace tandem::train {

enum class Rehearsal : std::uint8_t { kNo, kOneStep };

struct TrainRequest {
  job::ParsedJob parsed;
  std::filesystem::path base_directory;  // From which the job's relative paths are taken.
  std::filesystem::path run_directory;   // Where the model goes.
  Rehearsal rehearsal = Rehearsal::kNo;
};

// Trains until the job ends or `stop` becomes true, saves the model, and reports Finished. An Error
// when the job does not fit its data, training diverged, or the model could not be saved; it has
// not been reported.
Status train(const TrainRequest& request, Reporter& reporter, const std::atomic<bool>& stop);

}  // namespace tandem::train
