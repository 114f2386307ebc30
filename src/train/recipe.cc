#include "train/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace tandem::train {
namespace {

Error invalid(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

}  // namespace

Result<arch::Interface> interface_of(const data::Spec& spec, const arch::Loss& loss) {
  arch::Interface interface;
  interface.tokens = spec.input == data::Input::kTokens;
  interface.input_shape = spec.shape;
  interface.vocabulary = interface.tokens ? spec.classes : 0;
  for (const data::IdColumn& column : spec.ids) {
    interface.ids.push_back({column.input, column.rows});
  }
  if (spec.target == data::Target::kValue) {
    if (loss.kind == arch::LossKind::kCrossEntropy) {
      return invalid(
          "the labels are numbers, not classes; use \"mse\", or give classes: whole numbers in "
          "IDX files, data.task = \"classes\" with others");
    }
    interface.outputs = spec.target_width;
    return interface;
  }
  if (interface.tokens && loss.kind != arch::LossKind::kCrossEntropy) {
    return invalid("text needs \"cross_entropy\"");
  }
  // Two classes need one logit only.
  interface.outputs = loss.kind == arch::LossKind::kBce && spec.classes == 2 ? 1 : spec.classes;
  if (!loss.class_weights.empty() &&
      static_cast<std::int64_t>(loss.class_weights.size()) != spec.classes) {
    return invalid(fmt::format("class_weights has {} numbers but the data has {} classes",
                               loss.class_weights.size(), spec.classes));
  }
  return interface;
}

Result<arch::Blueprint> blueprint_of(const job::Job& job, const data::Spec& spec,
                                     arch::LayerError* where) {
  TANDEM_ASSIGN(const arch::Interface interface, interface_of(spec, job.train.loss));
  return arch::build(job.model.config, interface, where);
}

std::span<float> kept(const arch::Blueprint& blueprint, std::span<float> values) {
  return values.subspan(static_cast<std::size_t>(blueprint.window));
}

bool is_window(const arch::Blueprint& blueprint, const arch::Slot& slot) {
  return slot.kind == arch::SlotKind::kParameter && slot.offset < blueprint.window;
}

std::int64_t all_parameters(const arch::Blueprint& blueprint) {
  std::int64_t parameters = blueprint.parameters;
  for (const arch::Table& table : blueprint.tables)
    parameters += (table.all_rows - table.rows) * table.width;
  return parameters;
}

Length length_of(const job::Train& train, std::int64_t samples) {
  Length length;
  length.steps_per_epoch = (samples + train.batch - 1) / train.batch;
  length.total_steps = train.steps > 0 ? train.steps : length.steps_per_epoch * train.epochs;
  return length;
}

std::chrono::milliseconds patience_of(const job::Cluster& cluster) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(cluster.timeout_s * 1000));
}

bool glob_matches(std::string_view glob, std::string_view name) {
  // Greedy with one point to go back to: linear for the patterns that people write.
  std::size_t g = 0, n = 0, star = std::string_view::npos, retry = 0;
  while (n < name.size()) {
    if (g < glob.size() && (glob[g] == '?' || (glob[g] != '*' && glob[g] == name[n]))) {
      ++g, ++n;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      retry = n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

Result<Trainable> trainable_ranges(const arch::Blueprint& blueprint,
                                   const std::vector<std::string>& freeze) {
  std::vector<std::string_view> names;
  for (const arch::Slot& slot : blueprint.slots) names.push_back(slot.name);
  for (const std::string& glob : freeze) {
    if (std::any_of(names.begin(), names.end(),
                    [&](auto name) { return glob_matches(glob, name); }))
      continue;
    const std::string_view meant = nearest(glob, names);
    return invalid(fmt::format("`{}` matches no tensor; {}", glob,
                               meant.empty() ? fmt::format("the first is `{}`", names.front())
                                             : fmt::format("did you mean `{}`?", meant)));
  }
  Trainable trainable;
  for (const arch::Slot& slot : blueprint.slots) {
    if (std::any_of(freeze.begin(), freeze.end(),
                    [&](const auto& glob) { return glob_matches(glob, slot.name); })) {
      continue;
    }
    auto& ranges =
        slot.kind == arch::SlotKind::kParameter ? trainable.parameters : trainable.buffers;
    if (!ranges.empty() && ranges.back().end == slot.offset) {
      ranges.back().end += slot.size;
    } else {
      ranges.push_back({slot.offset, slot.offset + slot.size});
    }
  }
  if (trainable.parameters.empty())
    return invalid("this freezes every tensor; nothing would be trained");
  return trainable;
}

const arch::Slot& slot_at(const arch::Blueprint& blueprint, arch::SlotKind kind,
                          std::int64_t index) {
  for (const arch::Slot& slot : blueprint.slots) {
    if (slot.kind == kind && index >= slot.offset && index < slot.offset + slot.size) return slot;
  }
  TANDEM_CHECK(false);
}

}  // namespace tandem::train
