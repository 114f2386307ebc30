#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "base/text.h"
#include "checkpoint/store.h"
#include "cluster/resume.h"
#include "commands.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using checkpoint::Stored;

void print(const Json& json) {
  print_out(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::uint64_t bytes_in(const fs::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::uint64_t size = entry->file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

Result<std::vector<Stored>> stored_in(const std::string& run) {
  TANDEM_ASSIGN(const auto directory, cluster::RunDirectory::open(run));
  return checkpoint::list_checkpoints(directory.checkpoints());
}

// The one of a step, or the newest.
Result<Stored> find(const std::string& run, std::optional<std::int64_t> step) {
  TANDEM_ASSIGN(const std::vector<Stored> stored, stored_in(run));
  for (auto each = stored.rbegin(); each != stored.rend(); ++each) {
    if (!step || each->step == *step) return *each;
  }
  if (stored.empty()) return Error(Code::kNotFound, fmt::format("{} has no checkpoint", run));
  std::string steps;
  for (const Stored& each : stored) steps += fmt::format(" {}", each.step);
  return Error(Code::kNotFound,
               fmt::format("{} has no checkpoint of step {}; it has those of steps{}", run,
                           step.value_or(0), steps));
}

Status list(const CheckpointOptions& options) {
  TANDEM_ASSIGN(const std::vector<Stored> stored, stored_in(options.run));
  if (options.format == Format::kJson) {
    Json rows = Json::array();
    for (const Stored& each : stored) {
      rows.push_back(
          {{"step", each.step}, {"path", each.path.string()}, {"bytes", bytes_in(each.path)}});
    }
    print(rows);
    return {};
  }
  std::string text = fmt::format("{:>12} {:>16}  {}\n", "step", "bytes", "directory");
  for (const Stored& each : stored) {
    text += fmt::format("{:>12} {:>16}  {}\n", each.step,
                        with_commas(static_cast<std::int64_t>(bytes_in(each.path))),
                        each.path.string());
  }
  print_out(stored.empty() ? options.run + " has no checkpoints\n" : text);
  return {};
}

Status show(const CheckpointOptions& options) {
  TANDEM_ASSIGN(const Stored stored, find(options.run, options.step));
  Json json = {{"step", stored.step}, {"path", stored.path.string()}};
  for (const std::string_view name : {checkpoint::kModelFileName, checkpoint::kTrainingFileName}) {
    TANDEM_ASSIGN(const checkpoint::ModelFile file, checkpoint::load_model(stored.path / name));
    Json tensors = Json::object();
    for (const checkpoint::Tensor& tensor : file.tensors) tensors[tensor.name] = tensor.shape;
    Json metadata = file.metadata;
    if (const auto numbers = file.metadata.find("tandem.training");
        numbers != file.metadata.end()) {
      Json parsed = Json::parse(numbers->second, nullptr, /*allow_exceptions=*/false);
      if (!parsed.is_discarded()) metadata["tandem.training"] = std::move(parsed);
    }
    json[std::string(name)] = {{"tensors", tensors}, {"metadata", metadata}};
    if (name == checkpoint::kModelFileName && file.manifest)
      json["weights_hash"] = file.manifest->weights_hash;
  }
  if (options.format == Format::kJson) {
    print(json);
    return {};
  }
  std::string text = fmt::format("{}\nstep: {}\nweights_hash: {}\n", stored.path.string(),
                                 stored.step, json.value("weights_hash", "unknown"));
  for (const std::string_view name : {checkpoint::kModelFileName, checkpoint::kTrainingFileName}) {
    text += fmt::format("\n{}\n", name);
    for (const auto& [tensor, shape] : json[std::string(name)]["tensors"].items())
      text += fmt::format("  {} {}\n", tensor, shape.dump());
  }
  const Json& training = json[std::string(checkpoint::kTrainingFileName)]["metadata"];
  if (training.contains("tandem.training")) {
    text += "\n";
    for (const auto& [key, value] : training["tandem.training"].items())
      text += fmt::format("{}: {}\n", key, value.is_string() ? value.get<std::string>() : "?");
  }
  print_out(text);
  return {};
}

// Says of each whether it is whole, and if not, why.
Status verify(const CheckpointOptions& options) {
  TANDEM_ASSIGN(std::vector<Stored> stored, stored_in(options.run));
  if (options.step) {
    TANDEM_ASSIGN(const Stored one, find(options.run, options.step));
    stored = {one};
  }
  Json rows = Json::array();
  std::vector<std::int64_t> damaged;
  Status unread;
  for (const Stored& each : stored) {
    const Status whole = checkpoint::verify_checkpoint(each);
    rows.push_back({{"step", each.step},
                    {"whole", whole.ok()},
                    {"reason", whole.ok() ? "" : whole.error().message()}});
    std::string state = "whole";
    if (!whole.ok() && whole.error().code() == Code::kCorrupt) {
      damaged.push_back(each.step);
      state = "damaged: " + whole.error().message();
    } else if (!whole.ok()) {
      unread = whole;
      state = "cannot be read: " + whole.error().message();
    }
    if (options.format == Format::kText) print_out(fmt::format("step {}: {}\n", each.step, state));
  }
  if (options.format == Format::kJson) print(rows);
  if (damaged.empty()) return unread;
  return Error(Code::kCorrupt,
               fmt::format("{} of {} checkpoints are damaged: step {}", damaged.size(),
                           stored.size(), fmt::join(damaged, ", ")));
}

// How far numbers are from others.
struct Distance {
  double squares = 0, largest = 0;

  void add(std::span<const float> some, std::span<const float> others) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      const double apart = static_cast<double>(some[i]) - others[i];
      squares += apart * apart;
      largest = std::max(largest, std::abs(apart));
    }
  }
};

// Keys of the rows that a tensor holds; null when it is no sparse table.
const checkpoint::IntegerTensor* keys_of(const checkpoint::ModelFile& file,
                                         std::string_view tensor) {
  if (!tensor.ends_with(checkpoint::kRowsSuffix)) return nullptr;
  tensor.remove_suffix(checkpoint::kRowsSuffix.size());
  return file.find_keys(std::string(tensor) + std::string(checkpoint::kKeysSuffix));
}

// Of the rows that both have. Keys ascend.
Distance distance_of_rows(const checkpoint::Tensor& a, std::span<const std::int64_t> a_keys,
                          const checkpoint::Tensor& b, std::span<const std::int64_t> b_keys) {
  Distance distance;
  const auto width = static_cast<std::size_t>(a.shape[1]);
  for (std::size_t i = 0, j = 0; i < a_keys.size() && j < b_keys.size();) {
    if (a_keys[i] == b_keys[j]) {
      distance.add(std::span(a.values).subspan(width * i++, width),
                   std::span(b.values).subspan(width * j++, width));
    } else {
      ++(a_keys[i] < b_keys[j] ? i : j);
    }
  }
  return distance;
}

Result<Distance> distance_of(const checkpoint::ModelFile& a, const checkpoint::Tensor& tensor,
                             const checkpoint::ModelFile& b) {
  const checkpoint::Tensor* const other = b.find(tensor.name);
  const auto* const keys = keys_of(a, tensor.name);
  const auto* const other_keys = keys_of(b, tensor.name);
  if (keys != nullptr && other_keys != nullptr && other != nullptr) {
    const auto fits = [&](const checkpoint::Tensor& rows, std::size_t count) {
      return rows.shape.size() == 2 && rows.shape[1] == tensor.shape[1] &&
             rows.shape[0] == static_cast<std::int64_t>(count);
    };
    if (fits(tensor, keys->values.size()) && fits(*other, other_keys->values.size()))
      return distance_of_rows(tensor, keys->values, *other, other_keys->values);
  } else if (other != nullptr && other->values.size() == tensor.values.size()) {
    Distance distance;
    distance.add(tensor.values, other->values);
    return distance;
  }
  return Error(Code::kInvalidArgument,
               fmt::format("tensor `{}` is not the same in both", tensor.name));
}

Status diff(const CheckpointOptions& options) {
  TANDEM_ASSIGN(const Stored one, find(options.run, options.step));
  TANDEM_ASSIGN(const Stored two, find(options.run, options.other));
  TANDEM_ASSIGN(const auto a, checkpoint::load_model(one.path / checkpoint::kModelFileName));
  TANDEM_ASSIGN(const auto b, checkpoint::load_model(two.path / checkpoint::kModelFileName));
  Json rows = Json::array();
  std::string text = fmt::format("{:<32} {:>14} {:>14}\n", "tensor", "distance", "largest");
  for (const checkpoint::Tensor& tensor : a.tensors) {
    TANDEM_ASSIGN(const Distance distance, distance_of(a, tensor, b));
    const double root = std::sqrt(distance.squares);
    rows.push_back({{"tensor", tensor.name}, {"distance", root}, {"largest", distance.largest}});
    text += fmt::format("{:<32} {:>14.6g} {:>14.6g}\n", without_controls(tensor.name), root,
                        distance.largest);
  }
  if (options.format == Format::kJson) {
    print(rows);
  } else {
    print_out(text);
  }
  return {};
}

Status prune(const CheckpointOptions& options) {
  TANDEM_ASSIGN(const auto directory, cluster::RunDirectory::open(options.run));
  TANDEM_ASSIGN([[maybe_unused]] const auto lock, cluster::RunLock::take(directory));
  TANDEM_TRY(checkpoint::sweep_store(directory.checkpoints()));
  TANDEM_ASSIGN(std::vector<Stored> stored, stored_in(options.run));
  const std::vector<Stored> removed =
      checkpoint::superfluous(std::move(stored), options.keep, std::nullopt);
  Json steps = Json::array();
  for (const Stored& each : removed) {
    TANDEM_TRY(checkpoint::remove_checkpoint(each));
    steps.push_back(each.step);
    if (options.format == Format::kText) print_out(fmt::format("removed step {}\n", each.step));
  }
  if (options.format == Format::kJson) print({{"removed", steps}});
  return {};
}

Status run(const CheckpointOptions& options) {
  switch (options.action) {
    case CheckpointAction::kList:
      return list(options);
    case CheckpointAction::kShow:
      return show(options);
    case CheckpointAction::kVerify:
      return verify(options);
    case CheckpointAction::kDiff:
      return diff(options);
    case CheckpointAction::kPrune:
      return prune(options);
  }
  return {};
}

}  // namespace

int checkpoint(const CheckpointOptions& options, const Surroundings& around) {
  const Status status = run(options);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
