// Where a training stands: all that its next step depends on, copied, so that training can go on
// while it is written. The same for any number of workers. Plain values; thread-compatible.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_file.h"
#include "collective/group.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "train/table_files.h"

namespace tandem::train {

// Named numbers: steps done, the schedule's memory and the like. Whole ones are below 2^53.
using Numbers = std::map<std::string, double>;

// kCorrupt when there is none of that name.
Result<double> number(const Numbers& numbers, const std::string& name);
// The same for one that counts something.
Result<std::int64_t> count(const Numbers& numbers, const std::string& name);

struct Snapshot {
  std::vector<float> parameters, buffers;               // Without windows on tables.
  std::map<std::string, std::vector<float>> optimizer;  // Its state by name, likewise.
  Numbers numbers;
  std::shared_ptr<const TableFiles> tables;  // That servers keep by key; null: none.
};

// Copies, but for tables; allocates nothing when `into` was used for this before, but for the
// numbers.
void capture(model::Model& model, optim::Optimizer& optimizer, Numbers numbers, Snapshot& into);
// The other way. REQUIRES: it was captured from such a model and optimizer, or read for them.
void restore(const Snapshot& snapshot, model::Model& model, optim::Optimizer& optimizer);

// The contents of a checkpoint's training file (checkpoint/store.h); refers to the snapshot.
checkpoint::ModelContent training_content(const Snapshot& snapshot, checkpoint::Metadata metadata);

// Reads a checkpoint's directory, but for tables (train/table_files.h). kInvalidArgument when it is
// of another model or optimizer; kCorrupt when it is damaged.
Result<Snapshot> read_snapshot(const std::filesystem::path& directory, model::Model& model,
                               optim::Optimizer& optimizer);

// The snapshot of rank `root` becomes everybody's. REQUIRES: the others' has the same sizes
// (capture()).
Status share(Snapshot& snapshot, collective::Group& group, int root, collective::Deadline deadline);

}  // namespace tandem::train
