#include "checkpoint/safetensors_writer.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace tandem::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kAlignment = 8;

Result<std::string> dump(const Json& json) {
  try {
    return json.dump();
  } catch (const Json::exception&) {  // The only cause: text that is not UTF-8.
    return Error(Code::kInvalidArgument,
                 "a tensor's name or the metadata is not valid UTF-8; choose another name");
  }
}

Json make_header(std::span<const TensorView> tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const std::uint64_t end = offset + as_bytes(tensor).size();
    Json entry = {{"dtype", tensor.integers ? "I64" : "F32"}, {"shape", tensor.shape}};
    entry["data_offsets"] = Json::array({offset, end});
    // Not operator[], which compares with all keys before it; check_tensors() has seen that names
    // differ.
    header.get_ref<Json::object_t&>().emplace_back(tensor.name, std::move(entry));
    offset = end;
  }
  return header;
}

}  // namespace

Result<std::string> safetensors_prefix(std::span<const TensorView> tensors,
                                       const Metadata& metadata) {
  TANDEM_TRY(check_tensors(tensors));
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      return Error(Code::kInvalidArgument, "\"__metadata__\" cannot be a tensor's name");
    }
  }
  TANDEM_ASSIGN(std::string header, dump(make_header(tensors, metadata)));
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (header.size() > kMostHeaderBytes) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("names and metadata need {} bytes; a safetensors header has at most {}",
                    header.size(), kMostHeaderBytes));
  }
  const std::uint64_t length = header.size();
  std::string prefix(reinterpret_cast<const char*>(&length), sizeof length);
  prefix += header;
  return prefix;
}

std::vector<std::string_view> safetensors_pieces(std::string_view prefix,
                                                 std::span<const TensorView> tensors) {
  std::vector<std::string_view> pieces = {prefix};
  for (const TensorView& tensor : tensors) pieces.push_back(as_chars(tensor));
  return pieces;
}

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const Metadata& metadata) {
  TANDEM_ASSIGN(const std::string prefix, safetensors_prefix(tensors, metadata));
  return write_file_atomic(path, safetensors_pieces(prefix, tensors));
}

}  // namespace tandem::checkpoint
