// Mistakes in a job that only its data shows. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "arch/arch.h"
#include "data/dataset.h"
#include "job/job.h"
#include "train/recipe.h"

namespace tandem::train {

struct Misfit {
  std::string key;  // Of the job, for a message that points at it.
  std::string message;
};

// Targets that the loss cannot be computed of. Looks at all of them.
std::optional<Misfit> misfit_of_targets(const job::Train& recipe, const data::Parts& parts);

// What a schedule or an early stop asks for and does not happen within the run.
std::optional<Misfit> misfit_of_length(const job::Train& recipe, const Length& length,
                                       const data::Parts& parts);

// Whoever is judged by accuracy where there is none.
std::optional<Misfit> misfit_of_metric(const job::Job& job, const data::Spec& spec);

// Lanes of one sample where batch-norm needs several.
std::optional<Misfit> misfit_of_lanes(const job::Job& job, const arch::Blueprint& blueprint);

// Tables that servers keep by key and that are not trained.
std::optional<Misfit> misfit_of_frozen_tables(const arch::Blueprint& blueprint,
                                              const Trainable& trainable);

}  // namespace tandem::train
