// What a worker makes of its job before it meets the others: the data, the model with its first
// weights, how long the training is. Depends on nothing but the job and its files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/source.h"
#include "model/model.h"
#include "optim/schedule.h"
#include "train/recipe.h"
#include "train/request.h"

namespace tandem::train {

struct Prepared {
  data::Parts parts;
  std::unique_ptr<model::Model> model;
  Trainable trainable;
  Length length;
  optim::Schedule schedule;
  std::vector<std::string> notes;  // What a user should know.
  std::string facts;               // A hash; workers with another would not compute one truth.
};

// kInvalidArgument when the job does not fit its data; `key` then names the job's key that is to
// blame ("model.layers[2]"), if one is.
Result<Prepared> prepare(const TrainRequest& request, std::string& key);

}  // namespace tandem::train
