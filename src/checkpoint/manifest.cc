#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "checkpoint/safetensors.h"

namespace tandem::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "tandem-model";
// manifest, list of tensors, tensor, shape.
constexpr int kDeepest = 4;
// What is hashed and written at once: three hashes and a copy find it in the second-level cache.
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

Error corrupt(std::string message) {
  return Error(Code::kCorrupt, std::move(message));
}

bool is_hash(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A file's name need not be UTF-8, unlike the rest; it is there for people only.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> text_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    return corrupt(fmt::format("the text \"{}\" is missing", name));
  }
  return found->get<std::string>();
}

Result<std::string> hash_field(const Json& object, const char* name) {
  TANDEM_ASSIGN(std::string text, text_field(object, name));
  if (!is_hash(text)) return corrupt(fmt::format("\"{}\" is not 32 hexadecimal digits", name));
  return text;
}

Result<std::uint64_t> size_field(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) {
    return corrupt(fmt::format("the number \"{}\" is missing", name));
  }
  return found->get<std::uint64_t>();
}

Result<Shape> shape_field(const Json& object) {
  const auto found = object.find("shape");
  if (found == object.end() || !found->is_array()) return corrupt("the list \"shape\" is missing");
  Shape shape;
  for (const Json& dimension : *found) {
    if (!dimension.is_number_unsigned()) return corrupt("\"shape\" is not a list of sizes");
    const auto size = dimension.get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(size)) return corrupt("\"shape\" has a size beyond 2^63 - 1");
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

Result<TensorChecksum> parse_tensor(const Json& object) {
  if (!object.is_object()) return corrupt("\"tensors\" is not a list of objects");
  TensorChecksum tensor;
  TANDEM_ASSIGN(tensor.name, text_field(object, "name"));
  TANDEM_ASSIGN(tensor.shape, shape_field(object));
  TANDEM_ASSIGN(tensor.hash, hash_field(object, "xxh3_128"));
  return tensor;
}

Status check_version(const Json& root) {
  TANDEM_ASSIGN(const std::string format, text_field(root, "format"));
  if (format != kFormat) return corrupt(fmt::format("\"format\" is not \"{}\"", kFormat));
  TANDEM_ASSIGN(const std::uint64_t version, size_field(root, "version"));
  if (version == 0) return corrupt("\"version\" is 0");
  if (version != kManifestVersion) {
    return Error(
        Code::kVersionMismatch,
        fmt::format("it has version {}, and this Tandem reads {}; use the Tandem that wrote it",
                    version, kManifestVersion));
  }
  return {};
}

Result<Manifest> parse(std::string_view json) {
  // Deeper values are dropped as they are read, so that brackets cannot pile up in memory.
  const auto keep = [](int depth, Json::parse_event_t, const Json&) { return depth <= kDeepest; };
  const Json root = Json::parse(json.begin(), json.end(), keep, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) return corrupt("it is not a JSON object");
  TANDEM_TRY(check_version(root));
  Manifest manifest;
  TANDEM_ASSIGN(manifest.file, text_field(root, "file"));
  TANDEM_ASSIGN(manifest.bytes, size_field(root, "bytes"));
  TANDEM_ASSIGN(manifest.file_hash, hash_field(root, "xxh3_128"));
  TANDEM_ASSIGN(manifest.weights_hash, hash_field(root, "weights_hash"));
  const auto tensors = root.find("tensors");
  if (tensors == root.end() || !tensors->is_array()) {
    return corrupt("the list \"tensors\" is missing");
  }
  for (const Json& object : *tensors) {
    TANDEM_ASSIGN(TensorChecksum tensor, parse_tensor(object));
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

Status check_tensor(const TensorChecksum& expected, const TensorEntry& entry,
                    const Safetensors& model) {
  const bool is_ours = entry.dtype == Dtype::kF32 || entry.dtype == Dtype::kI64;
  if (!is_ours || entry.shape != expected.shape) {
    return corrupt(fmt::format("tensor \"{}\" is {} {}, but the manifest says F32 or I64 {}",
                               expected.name, to_string(entry.dtype), to_string(entry.shape),
                               to_string(expected.shape)));
  }
  if (hash_hex(model.bytes(entry)) != expected.hash) {
    return corrupt(
        fmt::format("tensor \"{}\" is damaged: its checksum is not the manifest's", expected.name));
  }
  return {};
}

Status check_each_tensor(const Manifest& manifest, const Safetensors& model) {
  std::unordered_map<std::string_view, const TensorEntry*> entries;
  for (const TensorEntry& entry : model.tensors) entries.emplace(entry.name, &entry);
  for (const TensorChecksum& expected : manifest.tensors) {
    const auto found = entries.find(expected.name);
    if (found == entries.end()) {
      return corrupt(
          fmt::format("tensor \"{}\" is in the manifest but not in the file", expected.name));
    }
    TANDEM_TRY(check_tensor(expected, *found->second, model));
    entries.erase(found);
  }
  if (!entries.empty()) {
    return corrupt(fmt::format("tensor \"{}\" is in the file but not in the manifest",
                               entries.begin()->first));
  }
  return {};
}

Status check_bytes(const Manifest& manifest, std::span<const std::byte> bytes) {
  if (bytes.size() != manifest.bytes) {
    return corrupt(fmt::format("it is {}: it has {} bytes, and the manifest says {}",
                               bytes.size() < manifest.bytes ? "truncated" : "too long",
                               bytes.size(), manifest.bytes));
  }
  const Result<Safetensors> model = parse_safetensors(bytes, "its header is damaged");
  if (!model.ok()) return corrupt(model.error().message());
  TANDEM_TRY(check_each_tensor(manifest, *model));
  if (hash_hex(bytes) != manifest.file_hash) {
    return corrupt(
        "its header is damaged: all tensors match the manifest, but the whole file's checksum does "
        "not");
  }
  if (hash_hex(model->data) != manifest.weights_hash) {
    return corrupt(
        "the manifest is damaged: its weights_hash is not that of the file it describes");
  }
  return {};
}

}  // namespace

std::string weights_hash(std::span<const float> parameters, std::span<const float> buffers) {
  Hasher hasher;
  hasher.add(std::as_bytes(parameters));
  hasher.add(std::as_bytes(buffers));
  return hasher.hex();
}

std::filesystem::path manifest_path(const std::filesystem::path& model_path) {
  std::filesystem::path path = model_path;
  return path.replace_extension(".manifest.json");
}

Result<Manifest> make_manifest(std::string file, std::string_view prefix,
                               std::span<const TensorView> tensors, const Sink& sink) {
  Manifest manifest;
  manifest.file = std::move(file);
  manifest.bytes = prefix.size();
  Hasher whole;
  Hasher weights;
  whole.add(std::as_bytes(std::span(prefix)));
  TANDEM_TRY(sink(std::as_bytes(std::span(prefix))));
  for (const TensorView& tensor : tensors) {
    Hasher own;
    std::span<const std::byte> rest = as_bytes(tensor);
    manifest.bytes += rest.size();
    while (!rest.empty()) {
      const auto piece = rest.first(std::min(rest.size(), kPieceBytes));
      for (Hasher* hasher : {&whole, &weights, &own}) hasher->add(piece);
      TANDEM_TRY(sink(piece));
      rest = rest.subspan(piece.size());
    }
    manifest.tensors.push_back({tensor.name, tensor.shape, own.hex()});
  }
  manifest.file_hash = whole.hex();
  manifest.weights_hash = weights.hex();
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  const Json fields = {{"format", kFormat},
                       {"version", kManifestVersion},
                       {"file", manifest.file},
                       {"bytes", manifest.bytes},
                       {"xxh3_128", manifest.file_hash},
                       {"weights_hash", manifest.weights_hash}};
  std::string text = "{\n";
  for (const auto& [name, value] : fields.items()) {
    text += fmt::format(" \"{}\": {},\n", name, dump(value));
  }
  text += " \"tensors\": [";
  const char* separator = "\n";
  for (const TensorChecksum& tensor : manifest.tensors) {
    const Json line = {{"name", tensor.name}, {"shape", tensor.shape}, {"xxh3_128", tensor.hash}};
    text += fmt::format("{}  {}", separator, dump(line));
    separator = ",\n";
  }
  return text + "\n ]\n}\n";
}

Result<Manifest> parse_manifest(std::string_view json, std::string_view file) {
  Result<Manifest> parsed = parse(json);
  if (!parsed.ok()) {
    return std::move(parsed).error().within(fmt::format("manifest {}", file));
  }
  return parsed;
}

Status check_manifest(const Manifest& manifest, std::span<const std::byte> bytes,
                      std::string_view file) {
  Status status = check_bytes(manifest, bytes);
  if (!status.ok()) return std::move(status).error().within(file);
  return {};
}

}  // namespace tandem::checkpoint
