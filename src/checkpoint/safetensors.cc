#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.h"
#include "checkpoint/safetensors_header.h"

namespace tandem::checkpoint {
namespace {

constexpr std::size_t kLengthBytes = 8;

Error corrupt(std::string message) {
  return Error(Code::kCorrupt, std::move(message));
}

Result<std::string_view> find_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    return corrupt(fmt::format("not a safetensors file: it has only {} bytes", bytes.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMostHeaderBytes) {
    return corrupt(fmt::format(
        "not a safetensors file, or damaged: it declares a header of {} bytes; {} are allowed",
        length, kMostHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    return corrupt(fmt::format("truncated: the header has {} bytes, but only {} follow", length,
                               bytes.size() - kLengthBytes));
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!header.starts_with('{')) {
    return corrupt("not a safetensors file: its header does not start with '{'");
  }
  return header;
}

// That the tensor's place is inside the data and as long as its shape and type say.
Status check_place(const TensorEntry& entry, std::uint64_t data_bytes) {
  if (entry.begin > entry.end) {
    return corrupt(
        fmt::format("it ends at byte {}, before its begin at {}", entry.end, entry.begin));
  }
  if (entry.end > data_bytes) {
    return corrupt(fmt::format(
        "it ends at byte {} of the data, which has only {}: the file is truncated or damaged",
        entry.end, data_bytes));
  }
  TANDEM_ASSIGN(const std::int64_t elements, element_count(entry.shape));
  std::uint64_t needed = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements), element_bytes(entry.dtype),
                             &needed) ||
      needed != entry.end - entry.begin) {
    return corrupt(fmt::format("shape {} of {} does not fill the {} bytes that it is given",
                               to_string(entry.shape), to_string(entry.dtype),
                               entry.end - entry.begin));
  }
  return {};
}

// That the tensors, sorted by place, follow each other without gap or overlap from the first byte
// to the last.
Status check_tiling(std::span<const TensorEntry> tensors, std::uint64_t data_bytes) {
  std::uint64_t reached = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin < reached) {
      return corrupt(
          fmt::format("tensor \"{}\" begins at byte {} of the data, inside another that ends at {}",
                      entry.name, entry.begin, reached));
    }
    if (entry.begin > reached) {
      return corrupt(fmt::format("a hole of {} bytes lies in front of tensor \"{}\"",
                                 entry.begin - reached, entry.name));
    }
    reached = entry.end;
  }
  if (reached != data_bytes) {
    return corrupt(
        fmt::format("{} bytes behind the last tensor belong to none", data_bytes - reached));
  }
  return {};
}

Result<Safetensors> parse(std::span<const std::byte> bytes) {
  TANDEM_ASSIGN(const std::string_view text, find_header(bytes));
  TANDEM_ASSIGN(Header header, parse_header(text));
  const auto data = bytes.subspan(kLengthBytes + text.size());
  for (const TensorEntry& entry : header.tensors) {
    if (Status status = check_place(entry, data.size()); !status.ok()) {
      return std::move(status).error().within(fmt::format("tensor \"{}\"", entry.name));
    }
  }
  // Empty tensors share their begin with the tensor behind them.
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  TANDEM_TRY(check_tiling(header.tensors, data.size()));
  return Safetensors{std::move(header.metadata), std::move(header.tensors), data};
}

}  // namespace

Result<Safetensors> parse_safetensors(std::span<const std::byte> bytes, std::string_view file) {
  Result<Safetensors> parsed = parse(bytes);
  if (!parsed.ok()) return std::move(parsed).error().within(file);
  return parsed;
}

Result<std::vector<std::int64_t>> read_integers(const Safetensors& file, const TensorEntry& entry) {
  if (entry.dtype != Dtype::kI64) {
    return Error(Code::kInvalidArgument, fmt::format("tensor \"{}\" is {}, and not I64", entry.name,
                                                     to_string(entry.dtype)));
  }
  const std::span<const std::byte> bytes = file.bytes(entry);
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Result<std::vector<float>> read_floats(const Safetensors& file, const TensorEntry& entry) {
  if (!is_float(entry.dtype)) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("tensor \"{}\" has elements of type {}; only F64, F32, F16 and BF16 can "
                    "be read as weights",
                    entry.name, to_string(entry.dtype)));
  }
  const std::span<const std::byte> bytes = file.bytes(entry);
  std::vector<float> values(bytes.size() / element_bytes(entry.dtype));
  decode(entry.dtype, bytes, values);
  return values;
}

}  // namespace tandem::checkpoint
