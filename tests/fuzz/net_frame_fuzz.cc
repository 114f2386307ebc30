// clang-format off
// Sources: src/net/frame.cc src/net/hello.cc src/base/check.cc src/base/result.cc
// Links: -lfmt
// clang-format on
//
// Whatever a peer sends, in pieces of whatever size, ends with an error or with frames that are
// written again as they were; and how the stream was cut does not change what is read. Likewise
// whatever comes in place of a handshake's message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/frame.h"
#include "net/hello.h"

namespace {

using namespace tandem::net;

constexpr std::size_t kMostPayloadBytes = 5000;

struct Reading {
  std::vector<std::string> frames;
  bool failed = false;

  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading read(std::string_view bytes, std::size_t piece) {
  FrameReader reader(kMostPayloadBytes);
  Reading reading;
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    while (!part.empty()) {
      auto next = reader.next(part);
      if (!next.ok()) {
        reading.failed = true;
        return reading;
      }
      if (!next->has_value()) break;
      Frame& frame = **next;
      if (frame.payload.size() > kMostPayloadBytes) std::abort();
      const Frame again = make_frame(frame.kind, frame.payload, reading.frames.size());
      if (again.tagged_header() != frame.tagged_header()) std::abort();
      reading.frames.push_back(std::string(frame.header.data(), kHeaderBytes) + frame.payload);
    }
  }
  return reading;
}

void check_handshake(std::string_view message) {
  for (const Role role : {Role::kConnects, Role::kListens}) {
    const auto hello = parse_hello(message, role);
    if (!hello.ok()) continue;
    const HelloBytes again = encode(*hello);
    if (is_answer(message) || message != std::string_view(again.data(), again.size())) std::abort();
  }
  if (const auto answer = parse_answer(message); answer.ok()) {
    const HelloBytes again = encode(*answer);
    if (!is_answer(message) || message != std::string_view(again.data(), again.size()))
      std::abort();
    if (refusal_told(answer->reason).message().empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Reading whole = read(bytes, bytes.size() + 1);
  if (read(bytes, 1) != whole || read(bytes, 41) != whole) std::abort();
  if (bytes.size() >= kHelloBytes) check_handshake(bytes.substr(0, kHelloBytes));
  return 0;
}
