// Where a training stands besides its weights and its optimizer: steps, samples, what the schedule
// remembers and what the judge shall. The same at every worker after the same step; kept in
// checkpoints and copied to workers that come later. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/result.h"
#include "converge/judge.h"
#include "optim/schedule.h"
#include "train/snapshot.h"

namespace tandem::train {

struct Course {
  explicit Course(optim::Schedule first) : schedule(first) {}

  std::int64_t step = 0;    // Done so far.
  std::int64_t judged = 0;  // After which step the last epoch was evaluated.
  std::int64_t samples = 0;
  std::int64_t dropped = 0;  // Samples that came too late for a quorum.
  bool exact = true;         // No step was made without waiting for others.
  double train_s = 0;
  double loss_sum = 0;          // Since the last progress report.
  std::int64_t loss_steps = 0;  // Steps in it.
  // After which step, and how good: the larger the better.
  std::optional<std::pair<std::int64_t, double>> best;
  optim::Schedule schedule;
  converge::Memory memory;

  Numbers numbers() const;
  // Takes over what numbers() gave. kCorrupt when something is missing.
  Status restore(const Numbers& numbers);
};

}  // namespace tandem::train
