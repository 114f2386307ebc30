#include "cluster/earlier_work.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/model_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Work {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t samples = 0;
  double train_s = 0;
  std::string weights_hash;
};

Result<std::string> hash_beside(const fs::path& model) {
  const fs::path path = checkpoint::manifest_path(model);
  TANDEM_ASSIGN(const std::string text, read_file(path, checkpoint::kMostManifestBytes));
  TANDEM_ASSIGN(checkpoint::Manifest manifest, checkpoint::parse_manifest(text, path.string()));
  return std::move(manifest.weights_hash);
}

// The numbers of a training file are texts (train/snapshot.h). 0 when there is none of that name.
double number_of(const Json& numbers, const char* name) {
  const auto found = numbers.find(name);
  return found != numbers.end() && found->is_string()
             ? std::strtod(found->get_ref<const std::string&>().c_str(), nullptr)
             : 0;
}

// A count that was written as a number like others; 0 when it is none.
std::int64_t count_of(double number) {
  constexpr double kMost = 0x1p53;
  return number > 0 && number <= kMost ? static_cast<std::int64_t>(number) : 0;
}

Result<Work> work_of(const fs::path& checkpoint, std::int64_t step) {
  const fs::path path = checkpoint / checkpoint::kTrainingFileName;
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  TANDEM_ASSIGN(const checkpoint::Safetensors training,
                checkpoint::parse_safetensors(file.bytes(), path.string()));
  const Json metadata(training.metadata);
  const Json numbers = Json::parse(metadata.value(checkpoint::kNumbers, ""), nullptr,
                                   /*allow_exceptions=*/false);
  if (!numbers.is_object()) return Error(Code::kCorrupt, path.string() + " has no numbers");
  Work work;
  work.steps = step;
  // Checkpoints of older versions do not tell it.
  const std::int64_t epoch = count_of(number_of(metadata, checkpoint::kStepsPerEpoch));
  if (epoch > 0) work.epochs = step / epoch;
  work.samples = count_of(number_of(numbers, "samples"));
  work.train_s = number_of(numbers, "train_s");
  TANDEM_ASSIGN(work.weights_hash, hash_beside(checkpoint / checkpoint::kModelFileName));
  return work;
}

Result<Work> newest_work(const RunDirectory& directory) {
  TANDEM_ASSIGN(const std::vector<checkpoint::Stored> stored,
                checkpoint::list_checkpoints(directory.checkpoints()));
  for (auto each = stored.rbegin(); each != stored.rend(); ++each) {
    auto work = work_of(each->path, each->step);
    if (work.ok()) return work;
  }
  return Error(Code::kNotFound, "no checkpoint can be read");
}

}  // namespace

void add_earlier_work(Report& report, const RunDirectory& directory, const ResumePoint* point) {
  if (point != nullptr && point->checkpoint.empty()) return;
  const auto work =
      point != nullptr ? work_of(point->checkpoint, point->step) : newest_work(directory);
  if (!work.ok()) return;
  report.steps = work->steps;
  report.epochs = work->epochs;
  report.samples = work->samples;
  report.train_s = work->train_s;
  report.weights_hash = work->weights_hash;
  const auto saved = hash_beside(directory.path() / checkpoint::kModelFileName);
  if (saved.ok() && *saved == work->weights_hash) report.model = checkpoint::kModelFileName;
}

}  // namespace tandem::cluster
