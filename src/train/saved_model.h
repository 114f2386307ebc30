// A trained model in a file, with all that is needed to use it again: the job, the data's Spec and
// Encoding. And the other way: a model built from such a file, or weights taken from one to start
// from.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_file.h"
#include "data/dataset.h"
#include "job/job.h"
#include "model/model.h"
#include "train/table_files.h"

namespace tandem::train {

// The kernels whose rounding is in the weights, as the libraries tell it: "aten=avx2;
// blas_core=Haswell ...".
std::string kernel_set();

// Weights as the contents of a model file, in the blueprint's order; refers to them. `parameters`
// are without windows, and `tables` what these are windows on; null: there are none.
checkpoint::ModelContent weights_content(const arch::Blueprint& blueprint,
                                         std::span<const float> parameters,
                                         std::span<const float> buffers,
                                         checkpoint::Metadata metadata,
                                         const TableFiles* tables = nullptr);
// What load_trained() needs beside the weights.
checkpoint::Metadata trained_metadata(const job::Job& job, const data::Parts& parts);

// Writes model.safetensors and its manifest into `directory`; returns the weights' hash.
Result<std::string> save_trained(const std::filesystem::path& directory, const job::Job& job,
                                 const data::Parts& parts, model::Model& model,
                                 const TableFiles* tables = nullptr);

struct TrainedModel {
  job::Job job;
  data::Spec spec;
  data::Encoding encoding;
  std::unique_ptr<model::Model> model;
};

// Rows of tables that the file does not have are as they begin. `overrides` change its job
// ("data.path=other.csv"). kCorrupt when the file is damaged, kInvalidArgument when it is no model
// that Tandem trained.
Result<TrainedModel> load_trained(const std::filesystem::path& path,
                                  std::span<const std::string> overrides);

// Copies the tensors of `file` whose name and shape match into the model; returns lines that say
// what was taken and what was not. kInvalidArgument when nothing matches.
Result<std::vector<std::string>> start_from(const checkpoint::ModelFile& file, model::Model& model);

}  // namespace tandem::train
