// The checkpoints of a run, a directory each: checkpoints/step-000000120 holds the model file and
// the training file (the optimizer's state, and where the training stands), with their manifests. A
// directory gets its name when all of it is on the disk, so one that is there is whole unless
// something damaged it. docs/checkpoints.md describes the files.
//
// No state; one process at a time writes to a store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_file.h"

namespace tandem::checkpoint {

inline constexpr std::string_view kTrainingFileName = "training.safetensors";
// In that file's metadata: from where the job's relative paths are taken (checkpoint/path_text.h).
inline constexpr const char* kBaseDirectory = "tandem.base_directory";
// And there: what tells epochs from steps.
inline constexpr const char* kStepsPerEpoch = "tandem.steps_per_epoch";
// And there: where the training stands, a JSON object of numbers as texts.
inline constexpr const char* kNumbers = "tandem.training";

struct Stored {
  std::int64_t step = 0;
  std::filesystem::path path;  // Its directory.
};

// In the order of steps; none when the store's directory is not there.
Result<std::vector<Stored>> list_checkpoints(const std::filesystem::path& store);

// Checks every byte of both files. kCorrupt says what is wrong, also when one is missing; kDenied,
// kVersionMismatch and kOutOfSpace are no damage: somebody else can read it.
Status verify_checkpoint(const Stored& stored);

struct Choice {
  Stored stored;
  std::vector<std::string> refused;  // Newer ones that are damaged, and how.
};
// The newest that is whole; of `step` if that is given, and then no other. kNotFound when there is
// none; the message says which were damaged. One that merely cannot be read here is not passed
// over, but an error.
Result<Choice> choose_checkpoint(const std::filesystem::path& store,
                                 std::optional<std::int64_t> step);

// Replaces one of the same step, and removes what writers that were killed have left. On failure
// nothing new is in the store and what was there is untouched; a writer that is killed leaves no
// more than something to sweep. `may_write` is asked before it touches anything, and again before
// the checkpoint gets its name.
Status write_checkpoint(
    const std::filesystem::path& store, std::int64_t step, const ModelContent& model,
    const ModelContent& training,
    const std::function<Status()>& may_write = [] { return Status(); });

// At no moment is half of it under its name.
Status remove_checkpoint(const Stored& stored);

// Removes what writers that were killed have left.
Status sweep_store(const std::filesystem::path& store);

// Those that are not among the newest `keep` and not of step `best`.
std::vector<Stored> superfluous(std::vector<Stored> stored, std::int64_t keep,
                                std::optional<std::int64_t> best);

}  // namespace tandem::checkpoint
