// Where a training stands besides its weights and its optimizer: steps, samples, what schedule and
// early stop remember. The same at every worker after the same step; kept in checkpoints and copied
// to workers that come later. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/result.h"
#include "job/job.h"
#include "optim/schedule.h"
#include "train/early_stop.h"
#include "train/snapshot.h"

namespace tandem::train {

struct Course {
  Course(const job::Train& train, optim::Schedule first) : schedule(first), early_stop(train) {}

  std::int64_t step = 0;    // Done so far.
  std::int64_t judged = 0;  // After which step the last epoch was evaluated.
  std::int64_t samples = 0;
  double train_s = 0;
  double loss_sum = 0;          // Since the last progress report.
  std::int64_t loss_steps = 0;  // Steps in it.
  // After which step, and how good: the larger the better.
  std::optional<std::pair<std::int64_t, double>> best;
  optim::Schedule schedule;
  EarlyStop early_stop;

  Numbers numbers() const;
  // Takes over what numbers() gave. kCorrupt when something is missing.
  Status restore(const Numbers& numbers);
};

}  // namespace tandem::train
