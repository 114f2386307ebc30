#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "checkpoint/model_file.h"
#include "checkpoint/npz.h"
#include "commands.h"
#include "counted.h"
#include "worker_command.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string to_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int report_error(const Surroundings& around, const Error& error) {
  print_error(around, error);
  return exit_code(error.code());
}

// A file that something damaged is refused, as far as that can be seen.
Result<checkpoint::ModelFile> load_checked(const std::string& path, const Surroundings& around) {
  TANDEM_ASSIGN(checkpoint::ModelFile model, checkpoint::load_model(path));
  warn_if_unchecked(model.path, around);
  if (!model.manifest) TANDEM_TRY(checkpoint::check_tables(model));
  return model;
}

std::int64_t count_numbers(const checkpoint::ModelFile& model) {
  std::int64_t total = 0;
  for (const checkpoint::Tensor& tensor : model.tensors)
    total += static_cast<std::int64_t>(tensor.values.size());
  return total;
}

Json summary_json(const checkpoint::ModelFile& model) {
  Json tensors = Json::array();
  for (const checkpoint::Tensor& tensor : model.tensors) {
    tensors.push_back(
        {{"name", tensor.name}, {"shape", tensor.shape}, {"count", tensor.values.size()}});
  }
  // Tables of which the file has some rows.
  Json tables = Json::array();
  for (const checkpoint::IntegerTensor& keys : model.keys)
    tables.push_back({{"keys", keys.name}, {"count", keys.values.size()}});
  return {
      {"file", model.path.string()},
      {"tensors", tensors},
      {"tables", tables},
      {"count", count_numbers(model)},
      {"skipped", model.skipped},
      {"metadata", model.metadata},
      {"weights_hash", model.manifest.has_value() ? Json(model.manifest->weights_hash) : Json()}};
}

// The first line of a value, shortened: metadata may hold a whole job file.
std::string brief(const std::string& value) {
  constexpr std::size_t kLongest = 80;
  std::string line = value.substr(0, value.find('\n'));
  if (line.size() > kLongest) line.resize(kLongest);
  return line.size() == value.size() ? line : line + " ...";
}

std::string summary_text(const checkpoint::ModelFile& model) {
  std::size_t name_width = 6, shape_width = 5;
  for (const checkpoint::Tensor& tensor : model.tensors) {
    name_width = std::max(name_width, without_controls(tensor.name).size());
    shape_width = std::max(shape_width, checkpoint::to_string(tensor.shape).size());
  }
  std::string text =
      fmt::format("{}\n\n{:<{}}  {:<{}}  {:>12}\n", without_controls(model.path.string()), "tensor",
                  name_width, "shape", shape_width, "numbers");
  for (const checkpoint::Tensor& tensor : model.tensors) {
    text += fmt::format("{:<{}}  {:<{}}  {:>12}\n", without_controls(tensor.name), name_width,
                        checkpoint::to_string(tensor.shape), shape_width,
                        with_commas(static_cast<std::int64_t>(tensor.values.size())));
  }
  text += fmt::format("{:<{}}  {:<{}}  {:>12}\n", "total", name_width, "", shape_width,
                      with_commas(count_numbers(model)));
  for (const checkpoint::IntegerTensor& keys : model.keys) {
    text += fmt::format("{}: {} of a table\n", without_controls(keys.name),
                        counted(static_cast<std::int64_t>(keys.values.size()), "key"));
  }
  for (const std::string& name : model.skipped)
    text += fmt::format("not read: {}\n", without_controls(name));
  if (model.manifest.has_value())
    text += fmt::format("\nweights_hash: {}\n", model.manifest->weights_hash);
  if (!model.metadata.empty()) text += "\n";
  for (const auto& [key, value] : model.metadata)
    text += fmt::format("{}: {}\n", without_controls(key), without_controls(brief(value)));
  return text;
}

// npz or safetensors: as asked for, or by the name of the file.
Result<std::string> export_format(const ModelExportOptions& options) {
  if (!options.format.empty()) return options.format;
  const std::string extension = fs::path(options.out).extension().string();
  if (extension == ".npz") return std::string("npz");
  if (extension == ".safetensors") return std::string("safetensors");
  return Error(Code::kInvalidArgument,
               fmt::format("the name {} does not say in which format to write; "
                           "add --format npz or --format safetensors",
                           options.out));
}

Status export_model(const ModelExportOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const std::string format, export_format(options));
  std::vector<fs::path> targets = {options.out};
  if (format == "safetensors") targets.push_back(checkpoint::manifest_path(options.out));
  for (const fs::path& target : targets) {
    std::error_code error;
    if (!fs::exists(target, error)) continue;
    return Error(Code::kInvalidArgument,
                 fmt::format("{} exists already; nothing is overwritten. Give --out another name",
                             target.string()));
  }
  TANDEM_ASSIGN(const checkpoint::ModelFile model, load_checked(options.model, around));
  // Keys come first, as in the file.
  std::vector<checkpoint::TensorView> tensors = checkpoint::views(model.keys);
  const std::vector<checkpoint::TensorView> floats = checkpoint::views(model.tensors);
  tensors.insert(tensors.end(), floats.begin(), floats.end());
  if (format == "npz") return checkpoint::write_npz(options.out, tensors);
  // The file's order is that of the slots, parameters before buffers; written in one list it stays
  // so.
  const auto saved = checkpoint::save_model(options.out, {tensors, {}, model.metadata});
  return saved.ok() ? Status() : Status(saved.error());
}

}  // namespace

int model_summary(const ModelSummaryOptions& options, const Surroundings& around) {
  const auto model = load_checked(options.model, around);
  if (!model.ok()) return report_error(around, model.error());
  print_out(options.format == Format::kJson ? to_text(summary_json(*model)) : summary_text(*model));
  return 0;
}

int model_verify(const ModelVerifyOptions& options, const Surroundings& around) {
  const auto manifest = checkpoint::verify_model(options.model);
  if (options.format == Format::kJson) {
    Json json = {{"ok", manifest.ok()}};
    if (manifest.ok()) {
      json["tensors"] = manifest->tensors.size();
      json["bytes"] = manifest->bytes;
      json["weights_hash"] = manifest->weights_hash;
    } else {
      json["error"] = {{"code", to_string(manifest.error().code())},
                       {"message", manifest.error().message()}};
    }
    print_out(to_text(json));
  }
  if (!manifest.ok()) return report_error(around, manifest.error());
  if (options.format == Format::kText) {
    print_out(fmt::format("{}: ok, {}, {}, weights_hash {}\n", options.model,
                          counted(static_cast<std::int64_t>(manifest->tensors.size()), "tensor"),
                          human_bytes(manifest->bytes), manifest->weights_hash));
  }
  return 0;
}

int model_export(const ModelExportOptions& options, const Surroundings& around) {
  const Status status = export_model(options, around);
  if (!status.ok()) return report_error(around, status.error());
  print_out(options.out + "\n");
  return 0;
}

}  // namespace tandem::cli
