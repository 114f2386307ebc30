// How a run looks in text: the table at its start, a line or a bar of progress, the summary at its
// end. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cluster/report.h"
#include "job/job.h"
#include "sparkline.h"
#include "wire/frame.h"

namespace tandem::cli {

// Where a run is.
struct Position {
  std::int64_t step = 0, total_steps = 0;
  std::int64_t epoch = 0, total_epochs = 0;  // `epoch` counts from 1: the one that is trained on.
  double loss = 0;
  double lr = 0;
  double samples_per_s = 0;
  std::optional<double> left_s;  // Nothing until it can be guessed.
};

Position position(const wire::Started& started, const wire::Progress& progress);

// Batch, lanes, steps, parameters, data and kernels, a line each.
std::string start_text(const job::Job& job, const wire::Started& started, const Kernels& kernels);

// "epoch 3/20  step 52/460  loss 0.2134  lr 0.05  12,345 samples/s  12 s left"
std::string progress_line(const Position& position);

// The same behind a bar, in at most `width` columns: what does not fit is left out from the right.
std::string progress_bar(const Position& position, std::size_t width, Charset charset);

// "epoch 3/20  validation: loss 0.1234, accuracy 96.87 %"
std::string evaluation_line(const wire::Started& started, const wire::Evaluated& evaluated);

// Status, result, time, curve of the loss, hash and where the run is, a line each.
std::string summary_text(const cluster::Report& report, std::span<const double> losses,
                         const std::string& run_directory, Charset charset);

}  // namespace tandem::cli
