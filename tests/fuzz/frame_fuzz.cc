// clang-format off
// Sources: wire/worker.pb.cc src/wire/frame.cc src/base/check.cc src/base/result.cc
// Links: -lfmt -lprotobuf-lite -lxxhash
// clang-format on
//
// Whatever a peer sends, in pieces of whatever size, ends with an error or with messages that can
// be sent on; and how the stream was cut does not change what is read. The checksum of the first
// frame is made right, or hardly an input would get past it.
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/frame.h"

namespace {

using namespace tandem::wire;

struct Reading {
  std::vector<std::string> messages;
  bool failed = false;
  bool inside_frame = false;

  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading read(std::string_view bytes, std::size_t piece) {
  FrameReader reader;
  Reading reading;
  for (std::size_t at = 0; at < bytes.size() && !reading.failed; at += piece) {
    reader.feed(std::as_bytes(std::span(bytes.substr(at, piece))));
    for (;;) {
      const auto next = reader.next();
      reading.failed = !next.ok();
      if (reading.failed || !next->has_value()) break;
      const auto again = encode(**next);
      if (!again.ok()) std::abort();
      reading.messages.push_back(*again);
    }
  }
  reading.inside_frame = !reading.failed && reader.inside_frame();
  return reading;
}

// The checksum of the first frame, as its length claims it, where the bytes are all there.
void repair_checksum(std::string& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, sizeof length);
  if (length > bytes.size() - kHeaderBytes) return;
  const auto sum = static_cast<std::uint32_t>(
      XXH3_64bits_withSeed(bytes.data() + kHeaderBytes, length, XXH3_64bits(bytes.data(), 12)));
  std::memcpy(bytes.data() + 12, &sum, sizeof sum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  repair_checksum(bytes);
  const Reading whole = read(bytes, bytes.size() + 1);
  if (read(bytes, 1) != whole || read(bytes, 7) != whole) std::abort();
  return 0;
}
