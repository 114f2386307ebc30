// All slices of a server process: a Service (ps/service.h) for each that the workers of the
// generation ask it for, and the shelf with what earlier ones left. A connection is about one
// slice; the worker's first message says which.
//
// The first message of a later generation ends the one before, for all slices at once: from then on
// states change only by its workers. Belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ps/service.h"

namespace tandem::ps {

class Services {
 public:
  Services(Outbox& out, Service::Log log, std::uint64_t credit_bytes = Credit::kNoLimit)
      : out_(out), log_(std::move(log)), credit_bytes_(credit_bytes) {}

  // As Service's.
  Result<std::span<std::byte>> place(PeerId peer, const Header& header);
  Status message(PeerId peer, const Header& header, std::span<const std::byte> payload);
  void settle(PeerId peer);
  void gone(PeerId peer, const Error& why);
  // Without memory for gone(): the generation is over, and all of its peers are to be ended.
  void forget();

 private:
  Status begin(PeerId peer, const Header& header, std::span<const std::byte> payload);
  void begin_generation(std::uint64_t generation);
  Status begin_reader(PeerId peer);
  Status read(PeerId peer, const Header& header);

  Outbox& out_;
  const Service::Log log_;
  const std::uint64_t credit_bytes_;
  const std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
  std::map<PeerId, std::vector<std::byte>> texts_;  // Of peers that have not begun.

  // Of the newest generation.
  std::uint64_t generation_ = 0;
  std::map<int, std::unique_ptr<Service>> services_;  // By slice.
  std::map<PeerId, Service*> members_;
  // They take no part, and only fetch; with the last records that each was sent.
  std::map<PeerId, Unsent> readers_;
};

}  // namespace tandem::ps
