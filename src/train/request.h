// What a worker shall train, and where its files are. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "job/job.h"

namespace tandem::train {

enum class Rehearsal : std::uint8_t { kNo, kOneStep };

struct TrainRequest {
  job::Job job;
  std::filesystem::path base_directory;  // From which the job's relative paths are taken.
  std::filesystem::path run_directory;   // Where the model goes.
  std::filesystem::path store;           // Where checkpoints go.
  Rehearsal rehearsal = Rehearsal::kNo;
  // How long the workers of a group wait for each other before its first step.
  std::chrono::milliseconds start_patience = std::chrono::minutes(2);
};

}  // namespace tandem::train
