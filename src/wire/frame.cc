#include "wire/frame.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <xxhash.h>

#include <cerrno>
#include <string_view>

namespace tandem::wire {
namespace {

constexpr std::uint32_t kMagic = 0x464d4454;  // "TDMF" when written little-endian.
constexpr std::size_t kChecksumOffset = 12;

template <typename T>
void put(char* at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<char>(value >> (8 * i));
}

template <typename T>
T take(const char* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(
        value | static_cast<T>(static_cast<T>(static_cast<unsigned char>(at[i])) << (8 * i)));
  }
  return value;
}

std::uint32_t checksum(const char* header, std::string_view payload) {
  const XXH64_hash_t seed = XXH3_64bits(header, kChecksumOffset);
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), seed));
}

struct Header {
  std::uint32_t length = 0;
  std::uint32_t checksum = 0;
};

Result<Header> read_header(const char* at) {
  if (const auto magic = take<std::uint32_t>(at); magic != kMagic) {
    return Error(
        Code::kCorrupt,
        fmt::format("not a Tandem frame: it starts with {:08x} instead of {:08x}", magic, kMagic));
  }
  if (const auto version = take<std::uint16_t>(at + 4); version != kFrameVersion) {
    return Error(Code::kVersionMismatch,
                 fmt::format("the peer sends frames of version {}, this program reads version {}; "
                             "use binaries of one build",
                             version, kFrameVersion));
  }
  if (const auto reserved = take<std::uint16_t>(at + 6); reserved != 0) {
    return Error(Code::kCorrupt,
                 fmt::format("a frame's reserved field is {} instead of 0", reserved));
  }
  const auto length = take<std::uint32_t>(at + 8);
  if (length > kMaxPayloadBytes) {
    return Error(Code::kCorrupt,
                 fmt::format("a frame claims {} bytes of payload; at most {} are allowed", length,
                             kMaxPayloadBytes));
  }
  return Header{length, take<std::uint32_t>(at + kChecksumOffset)};
}

// Waits until the socket takes more bytes.
Status wait_writable(int fd, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return Error(Code::kTimeout, "send a message: the other end has stopped reading");
    }
    pollfd entry{fd, POLLOUT, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error("wait to send a message", errno);
  }
}

}  // namespace

Result<std::string> encode(const WorkerMessage& message) {
  const std::size_t length = message.ByteSizeLong();
  if (length > kMaxPayloadBytes) {
    return Error(Code::kInvalidArgument,
                 fmt::format("a message of {} bytes does not fit a frame; at most {} do", length,
                             kMaxPayloadBytes));
  }
  std::string frame(kHeaderBytes, '\0');
  if (!message.AppendToString(&frame))
    return Error(Code::kInternal, "protobuf could not serialise a message");
  put(frame.data(), kMagic);
  put(frame.data() + 4, kFrameVersion);
  put(frame.data() + 8, static_cast<std::uint32_t>(length));
  put(frame.data() + kChecksumOffset,
      checksum(frame.data(), std::string_view(frame).substr(kHeaderBytes)));
  return frame;
}

Status send(int fd, const WorkerMessage& message, std::chrono::milliseconds patience) {
  TANDEM_ASSIGN(const std::string frame, encode(message));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TANDEM_TRY(wait_writable(fd, deadline));
    } else if (errno != EINTR) {
      return system_error("send a message", errno);
    }
  }
  return {};
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  if (error_.has_value()) return;
  // What was returned already is dropped here, so the buffer holds no more than what is unread.
  buffer_.erase(0, position_);
  position_ = 0;
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::optional<WorkerMessage>> FrameReader::next() {
  if (error_.has_value()) return *error_;
  const std::string_view unread = std::string_view(buffer_).substr(position_);
  if (unread.size() < kHeaderBytes) return std::optional<WorkerMessage>();
  const Result<Header> header = read_header(unread.data());
  if (!header.ok()) return fail(header.error());
  if (unread.size() - kHeaderBytes < header->length) return std::optional<WorkerMessage>();

  const std::string_view payload = unread.substr(kHeaderBytes, header->length);
  if (checksum(unread.data(), payload) != header->checksum) {
    return fail(Error(Code::kCorrupt, "a frame does not match its checksum"));
  }
  WorkerMessage message;
  if (!message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return fail(Error(Code::kCorrupt, "a frame's payload is not a valid message"));
  }
  position_ += kHeaderBytes + header->length;
  return std::optional<WorkerMessage>(std::move(message));
}

Error FrameReader::fail(Error error) {
  error_ = error;
  buffer_.clear();
  position_ = 0;
  return error;
}

}  // namespace tandem::wire
