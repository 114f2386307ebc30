#include "net/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/bytes.h"

namespace tandem::net {
namespace {

constexpr std::uint32_t kMagic = 0x464e4454;  // "TDNF" when written little-endian.

}  // namespace

Frame make_frame(std::uint16_t kind, std::string payload, std::uint64_t counter) {
  Frame frame;
  put(frame.header.data(), kMagic);
  put(frame.header.data() + 4, kVersion);
  put(frame.header.data() + 6, kind);
  put(frame.header.data() + 8, static_cast<std::uint64_t>(payload.size()));
  put(frame.header.data() + 16, counter);
  frame.payload = std::move(payload);
  frame.kind = kind;
  return frame;
}

Result<std::optional<Frame>> FrameReader::next(std::string_view& bytes) {
  if (header_bytes_ < kHeaderBytes) {
    const std::size_t some = std::min(bytes.size(), kHeaderBytes - header_bytes_);
    std::memcpy(frame_.header.data() + header_bytes_, bytes.data(), some);
    bytes.remove_prefix(some);
    header_bytes_ += some;
    if (header_bytes_ < kHeaderBytes) return std::optional<Frame>();
    TANDEM_TRY(read_header());
  }
  const std::size_t some = std::min(bytes.size(), payload_bytes_ - frame_.payload.size());
  frame_.payload.append(bytes.substr(0, some));
  bytes.remove_prefix(some);
  if (frame_.payload.size() < payload_bytes_) return std::optional<Frame>();
  header_bytes_ = 0;
  ++counter_;
  return std::optional<Frame>(std::exchange(frame_, Frame{}));
}

Status FrameReader::read_header() {
  const char* const header = frame_.header.data();
  if (const auto magic = take<std::uint32_t>(header); magic != kMagic) {
    return Error(Code::kCorrupt, fmt::format("not a frame: it starts with {:08x} instead of {:08x}",
                                             magic, kMagic));
  }
  if (const auto version = take<std::uint16_t>(header + 4); version != kVersion) {
    return Error(Code::kVersionMismatch,
                 fmt::format("a frame of version {} where {} was agreed", version, kVersion));
  }
  const auto length = take<std::uint64_t>(header + 8);
  if (length > most_payload_bytes_) {
    return Error(Code::kCorrupt, fmt::format("a frame claims {} bytes; at most {} are allowed",
                                             length, most_payload_bytes_));
  }
  if (const auto counter = take<std::uint64_t>(header + 16); counter != counter_) {
    return Error(Code::kCorrupt,
                 fmt::format("frame {} came where {} was due: it was repeated, or some are missing",
                             counter, counter_));
  }
  frame_.kind = take<std::uint16_t>(header + 6);
  if (frame_.kind >= kFirstReservedKind && (frame_.kind != kBeat || length != 0)) {
    return Error(Code::kCorrupt, fmt::format("a frame of the reserved kind {:04x} and {} bytes",
                                             frame_.kind, length));
  }
  payload_bytes_ = static_cast<std::size_t>(length);
  return {};
}

}  // namespace tandem::net
