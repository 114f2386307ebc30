#include "train/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/span_math.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "train/recipe.h"
#include "train/table_names.h"

namespace tandem::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOptimizer = "optimizer.";

// As texts: JSON has no infinity, and these keep every bit.
std::string to_json(const Numbers& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = fmt::format("{}", value);
  return json.dump();
}

Result<Numbers> numbers_from(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error(Code::kCorrupt, "its numbers are no JSON object");
  Numbers numbers;
  for (const auto& [name, value] : json.items()) {
    const std::string digits = value.is_string() ? value.get<std::string>() : "";
    char* end = nullptr;
    numbers[name] = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end != '\0')
      return Error(Code::kCorrupt, fmt::format("its number `{}` is none", name));
  }
  return numbers;
}

// The tensor's numbers into memory that must have its size.
Status copy_tensor(const checkpoint::ModelFile& file, const std::string& name,
                   std::span<float> to) {
  const checkpoint::Tensor* tensor = file.find(name);
  if (tensor == nullptr || tensor->values.size() != to.size()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} has no `{}` of {} numbers: it belongs to another model or "
                             "optimizer; go on with the job that it was made by",
                             file.path.string(), name, to.size()));
  }
  if (first_not_finite(tensor->values) < to.size()) {
    return Error(Code::kCorrupt,
                 fmt::format("{}: `{}` holds what is no number", file.path.string(), name));
  }
  std::ranges::copy(tensor->values, to.begin());
  return {};
}

std::span<std::byte> bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace

Result<double> number(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  return Error(Code::kCorrupt, fmt::format("the checkpoint does not say `{}`", name));
}

Result<std::int64_t> count(const Numbers& numbers, const std::string& name) {
  TANDEM_ASSIGN(const double value, number(numbers, name));
  if (!(value >= 0 && value <= 0x1p53 && value == std::floor(value)))
    return Error(Code::kCorrupt, fmt::format("the checkpoint's `{}` is {}", name, value));
  return static_cast<std::int64_t>(value);
}

void capture(model::Model& model, optim::Optimizer& optimizer, Numbers numbers, Snapshot& into) {
  const arch::Blueprint& blueprint = model.blueprint();
  copy(kept(blueprint, model.parameters()), into.parameters);
  copy(model.buffers(), into.buffers);
  for (const optim::StateTensor& tensor : optimizer.state())
    copy(kept(blueprint, tensor.values), into.optimizer[std::string(tensor.name)]);
  into.numbers = std::move(numbers);
  into.numbers["optimizer.steps"] = static_cast<double>(optimizer.steps());
}

void restore(const Snapshot& snapshot, model::Model& model, optim::Optimizer& optimizer) {
  const arch::Blueprint& blueprint = model.blueprint();
  std::ranges::copy(snapshot.parameters, kept(blueprint, model.parameters()).begin());
  std::ranges::copy(snapshot.buffers, model.buffers().begin());
  for (const optim::StateTensor& tensor : optimizer.state())
    std::ranges::copy(snapshot.optimizer.at(std::string(tensor.name)),
                      kept(blueprint, tensor.values).begin());
  optimizer.set_steps(static_cast<std::int64_t>(snapshot.numbers.at("optimizer.steps")));
  model.parameters_changed();
}

checkpoint::ModelContent training_content(const Snapshot& snapshot, checkpoint::Metadata metadata) {
  checkpoint::ModelContent content;
  if (snapshot.tables) content.parameters = snapshot.tables->training();
  for (const auto& [name, values] : snapshot.optimizer) {
    content.parameters.push_back({fmt::format("{}{}", kOptimizer, name),
                                  {std::ssize(values)},
                                  std::span<const float>(values)});
  }
  content.metadata = std::move(metadata);
  content.metadata[checkpoint::kNumbers] = to_json(snapshot.numbers);
  return content;
}

Result<Snapshot> read_snapshot(const std::filesystem::path& directory, model::Model& model,
                               optim::Optimizer& optimizer) {
  // What tables hold goes to the servers, not through this worker's memory.
  const auto wanted = [&](std::string_view name) {
    return model.blueprint().window == 0 ||
           !(name.starts_with(kTablePrefix) || name.ends_with(checkpoint::kRowsSuffix) ||
             name.ends_with(checkpoint::kKeysSuffix));
  };
  TANDEM_ASSIGN(const checkpoint::ModelFile weights,
                checkpoint::load_model(directory / checkpoint::kModelFileName, wanted));
  TANDEM_ASSIGN(const checkpoint::ModelFile training,
                checkpoint::load_model(directory / checkpoint::kTrainingFileName, wanted));
  Snapshot snapshot;
  capture(model, optimizer, {}, snapshot);
  for (const arch::Slot& slot : model.blueprint().slots) {
    if (is_window(model.blueprint(), slot)) continue;
    const bool trained = slot.kind == arch::SlotKind::kParameter;
    auto& all = trained ? snapshot.parameters : snapshot.buffers;
    const std::int64_t offset = slot.offset - (trained ? model.blueprint().window : 0);
    TANDEM_TRY(copy_tensor(weights, slot.name,
                           std::span(all).subspan(static_cast<std::size_t>(offset),
                                                  static_cast<std::size_t>(slot.size))));
  }
  for (auto& [name, values] : snapshot.optimizer)
    TANDEM_TRY(copy_tensor(training, fmt::format("{}{}", kOptimizer, name), values));
  const auto text = training.metadata.find(checkpoint::kNumbers);
  if (text == training.metadata.end())
    return Error(Code::kCorrupt,
                 fmt::format("{} has no `{}`", training.path.string(), checkpoint::kNumbers));
  TANDEM_ASSIGN(snapshot.numbers, numbers_from(text->second));
  TANDEM_ASSIGN([[maybe_unused]] const std::int64_t steps,
                count(snapshot.numbers, "optimizer.steps"));
  return snapshot;
}

Status share(Snapshot& snapshot, collective::Group& group, int root,
             collective::Deadline deadline) {
  if (group.size() == 1) return {};
  std::string text = to_json(snapshot.numbers);
  std::uint64_t length = text.size();
  TANDEM_TRY(group.broadcast(std::as_writable_bytes(std::span(&length, 1)), root, deadline));
  text.resize(length);
  TANDEM_TRY(group.broadcast(std::as_writable_bytes(std::span(text)), root, deadline));
  TANDEM_ASSIGN(snapshot.numbers, numbers_from(text));
  TANDEM_TRY(group.broadcast(bytes_of(snapshot.parameters), root, deadline));
  TANDEM_TRY(group.broadcast(bytes_of(snapshot.buffers), root, deadline));
  for (auto& [name, values] : snapshot.optimizer)
    TANDEM_TRY(group.broadcast(bytes_of(values), root, deadline));
  return {};
}

}  // namespace tandem::train
