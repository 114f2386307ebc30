// Messages that a trainer sends, made of what it knows. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/arch.h"
#include "base/result.h"
#include "data/dataset.h"
#include "job/job.h"
#include "train/course.h"
#include "train/evaluate.h"
#include "train/recipe.h"
#include "wire/worker.pb.h"

namespace tandem::train {

wire::WorkerMessage started_message(const job::Job& job, const data::Parts& parts,
                                    const arch::Blueprint& blueprint, const Length& length,
                                    const std::vector<std::string>& notes);

// The first step of a generation was made, or there was none left; `copied`: from another's state.
wire::WorkerMessage placed_message(std::uint64_t generation, std::int64_t first_step, bool copied);

// Since the last one; a lane of a step took `lane_s`.
wire::WorkerMessage progress_message(const Course& course, const Length& length, double lr,
                                     double grad_norm, double lane_s);

// After `step`, on the part of that name.
wire::WorkerMessage evaluated_message(const Evaluation& evaluation, std::int64_t step,
                                      const Length& length, const char* part);

// `error` is what ended the group; null when its members agreed to meet anew.
wire::WorkerMessage left_message(std::uint64_t generation, std::int64_t step, const Error* error);

wire::WorkerMessage event_message(const std::string& kind, const std::string& detail);

void set_evaluation(const Evaluation& evaluation, wire::Finished& finished);

}  // namespace tandem::train
