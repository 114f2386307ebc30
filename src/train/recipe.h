// What a job and its data say together: the model's interface and blueprint, how many steps there
// are, which slots are trained. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "base/result.h"
#include "data/dataset.h"
#include "job/job.h"
#include "optim/range.h"

namespace tandem::train {

// What the data looks like to a model trained with `loss`. kInvalidArgument when the two do not
// fit: regression with cross entropy, class weights for another number of classes.
Result<arch::Interface> interface_of(const data::Spec& spec, const arch::Loss& loss);

Result<arch::Blueprint> blueprint_of(const job::Job& job, const data::Spec& spec,
                                     arch::LayerError* where = nullptr);

// Floats of the flat parameter vector that are the model's own, behind windows on tables that are
// kept elsewhere.
std::span<float> kept(const arch::Blueprint& blueprint, std::span<float> values);
bool is_window(const arch::Blueprint& blueprint, const arch::Slot& slot);
// Parameters of the whole model, with those of such tables.
std::int64_t all_parameters(const arch::Blueprint& blueprint);

struct Length {
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
};
Length length_of(const job::Train& train, std::int64_t samples);

// How long a worker waits for another inside a step.
std::chrono::milliseconds patience_of(const job::Cluster& cluster);

// Whether `name` matches a glob with * and ?.
bool glob_matches(std::string_view glob, std::string_view name);

// What training changes: ranges of the flat parameter and buffer vectors, joined where they touch.
struct Trainable {
  std::vector<optim::Range> parameters;
  std::vector<optim::Range> buffers;
};

// Everything that no glob of `freeze` matches. kInvalidArgument when a glob matches nothing (with a
// suggestion) or no parameter is left.
Result<Trainable> trainable_ranges(const arch::Blueprint& blueprint,
                                   const std::vector<std::string>& freeze);

// The parameter slot that holds float `index` of the flat vector.
const arch::Slot& slot_at(const arch::Blueprint& blueprint, arch::SlotKind kind,
                          std::int64_t index);

}  // namespace tandem::train
