#include "ps/services.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::ps {
namespace {

Error not_begun() {
  return Error(Code::kInvalidArgument, "a message came before its sender had begun");
}

}  // namespace

Result<std::span<std::byte>> Services::place(PeerId peer, const Header& header) {
  if (const auto member = members_.find(peer); member != members_.end())
    return member->second->place(peer, header);
  if (header.kind != Kind::kBegin) return not_begun();
  std::vector<std::byte>& text = texts_[peer];
  text.resize(header.bytes);
  return std::span(text);
}

Status Services::message(PeerId peer, const Header& header, std::span<const std::byte> payload) {
  if (const auto member = members_.find(peer); member != members_.end())
    return member->second->message(peer, header, payload);
  if (readers_.contains(peer)) return read(peer, header);
  if (header.kind != Kind::kBegin) return not_begun();
  Status begun = begin(peer, header, payload);
  texts_.erase(peer);
  return begun;
}

void Services::settle(PeerId peer) {
  if (const auto member = members_.find(peer); member != members_.end()) member->second->settle();
}

void Services::gone(PeerId peer, const Error& why) {
  texts_.erase(peer);
  readers_.erase(peer);
  const auto member = members_.find(peer);
  if (member == members_.end()) return;
  Service& service = *member->second;
  members_.erase(member);
  service.gone(peer, why);
}

void Services::forget() {
  services_.clear();
  members_.clear();
  readers_.clear();
  texts_.clear();
  ++generation_;
}

Status Services::begin(PeerId peer, const Header& header, std::span<const std::byte> payload) {
  wire::PsBegin begin;
  if (!begin.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Error(Code::kCorrupt, "a worker's first message is damaged");
  const std::uint64_t generation = begin.plan().generation();
  if (generation < generation_)
    return Error(Code::kPeerLost, fmt::format("generation {} is over", generation));
  if (begin.only_fetches()) {
    if (generation > generation_) begin_generation(generation);
    return begin_reader(peer);
  }
  TANDEM_TRY(from_wire(begin.plan()));
  if (generation > generation_) begin_generation(generation);
  const int slice = begin.plan().server();
  if (!services_.contains(slice)) {
    if (services_.size() >= kMostCopies) {
      return Error(Code::kInvalidArgument,
                   fmt::format("{} asks for slice {}, and the server has {} already, as many as it "
                               "may",
                               begin.name(), slice, services_.size()));
    }
    services_[slice] = std::make_unique<Service>(out_, log_, shelf_, credit_bytes_);
  }
  Service& service = *services_.at(slice);
  TANDEM_TRY(service.message(peer, header, payload));
  members_[peer] = &service;
  return {};
}

void Services::begin_generation(std::uint64_t generation) {
  for (auto& [slice, service] : services_)
    service->dismiss(Error(Code::kPeerLost, fmt::format("generation {} began", generation)));
  for (const auto& [reader, unsent] : readers_) out_.close(reader);
  services_.clear();
  members_.clear();
  readers_.clear();
  generation_ = generation;
}

Status Services::begin_reader(PeerId peer) {
  wire::PsBegun begun;
  shelf_->describe(begun);
  readers_[peer] = {};
  out_.send_text(peer, {.kind = Kind::kBegun}, begun.SerializeAsString());
  return {};
}

Status Services::read(PeerId peer, const Header& header) {
  if (header.kind == Kind::kFetchRecords)
    return send_records(out_, *shelf_, peer, header, readers_.at(peer));
  if (header.kind != Kind::kFetch) return not_begun();
  return send_state(out_, *shelf_, peer, header);
}

}  // namespace tandem::ps
