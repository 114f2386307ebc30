// For fuzz targets of parameter servers: messages as they come from outside, for servers without
// sockets. The input is a list of messages: who sends it, its header as it travels, and the payload
// that the header claims.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ps/services.h"

namespace tandem::ps {

inline constexpr std::size_t kMostFloats = 5000;

class Nowhere : public Outbox {
 public:
  void send(PeerId, const Header&, std::span<const std::byte>) override {}
  void lend(PeerId, const Header&, std::span<const std::byte>,
            std::shared_ptr<const void>) override {}
  void send_text(PeerId, const Header&, std::string) override {}
  void share(PeerId, const SharedMemory&) override {}
  std::uint64_t unsent_results(PeerId) const override { return 0; }
  void close(PeerId) override {}
};

// Whether the sender may go on.
inline bool give(Services& services, PeerId peer, const Header& header,
                 std::span<const std::byte> payload) {
  Status status;
  if (header.bytes > 0) {
    auto place = services.place(peer, header);
    if (place.ok()) {
      if (place->size() != header.bytes) std::abort();
      std::copy(payload.begin(), payload.end(), place->begin());
      status = services.message(peer, header, *place);
    } else {
      status = place.error();
    }
  } else {
    status = services.message(peer, header, {});
  }
  if (!status.ok()) services.gone(peer, status.error());
  return status.ok();
}

// What must not fail.
inline void must_give(Services& services, PeerId peer, Header header, const std::string& text) {
  header.bytes = text.size();
  if (!give(services, peer, header, std::as_bytes(std::span(text)))) std::abort();
}

// A plan from outside is huge only on paper here.
inline bool is_small(const Header& header, std::span<const std::byte> payload) {
  if (header.kind != Kind::kBegin) return true;
  wire::PsBegin begin;
  return begin.ParseFromArray(payload.data(), static_cast<int>(payload.size())) &&
         begin.plan().floats() <= kMostFloats && begin.memory().empty();
}

// From three peers.
inline void give_all(Services& services, std::span<const std::byte> input) {
  while (input.size() > kHeaderBytes) {
    const auto peer = static_cast<PeerId>(std::to_integer<int>(input[0] & std::byte{0x7f}) % 3 + 1);
    const auto header = parse(input.subspan(1).first<kHeaderBytes>());
    input = input.subspan(1 + kHeaderBytes);
    if (!header.ok()) continue;
    std::vector<std::byte> payload(std::min<std::size_t>(header->bytes, kMostFloats * 4));
    if (payload.size() != header->bytes) continue;
    const std::size_t there = std::min(payload.size(), input.size());
    std::copy_n(input.begin(), there, payload.begin());
    input = input.subspan(there);
    if (is_small(*header, payload)) give(services, peer, *header, payload);
  }
}

}  // namespace tandem::ps
