// The part of Service that begins and ends generations.
#include <fmt/format.h>

#include <optional>
#include <thread>
#include <utility>

#include "collective/host.h"
#include "ps/progress_wire.h"
#include "ps/scope.h"
#include "ps/service.h"

namespace tandem::ps {

Status Service::begin(PeerId peer, std::span<const std::byte> payload) {
  wire::PsBegin begin;
  if (!begin.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Error(Code::kCorrupt, "a worker's first message is damaged");
  if (members_.contains(peer)) return Error(Code::kInvalidArgument, "a worker began twice");
  TANDEM_ASSIGN(Plan plan, from_wire(begin.plan()));
  if (plan.generation < newest_generation_ || (plan.generation == newest_generation_ && !plan_)) {
    return Error(Code::kPeerLost, fmt::format("generation {} is over", plan.generation));
  }
  if (plan.generation > newest_generation_) {
    TANDEM_TRY(begin_generation(std::move(plan), begin.plan()));
  } else if (begin.plan().SerializeAsString() != plan_bytes_) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} has another plan than the other workers; do all have the same job "
                             "and version?",
                             begin.name()));
  }
  TANDEM_TRY(check_member(begin));
  Member member;
  member.worker = begin.worker();
  member.name = begin.name();
  grant(member);
  wire::PsBegun begun;
  begun.set_credit_bytes(member.credit.bytes());
  shelf_->describe(begun);
  tell_progress(begun);
  TANDEM_TRY(share(peer, member, begin, begun));
  members_.emplace(peer, std::move(member));
  out_.send_text(peer, {.kind = Kind::kBegun}, begun.SerializeAsString());
  return {};
}

Status Service::check_member(const wire::PsBegin& begin) {
  if (begin.worker() < 0 || begin.worker() >= static_cast<int>(plan_->workers()))
    return Error(Code::kInvalidArgument, fmt::format("there is no worker {}", begin.worker()));
  for (const auto& [id, other] : members_) {
    if (other.worker == begin.worker())
      return Error(Code::kInvalidArgument,
                   fmt::format("{} says that it is {}", begin.name(), other.name));
  }
  return {};
}

Status Service::begin_generation(Plan plan, const wire::PsPlan& message) {
  if (plan_) {
    break_up(0, Error(Code::kPeerLost, fmt::format("generation {} began", plan.generation)));
  }
  newest_generation_ = plan.generation;
  const auto slice = static_cast<std::size_t>(message.server());
  const auto servers = static_cast<std::size_t>(message.servers());
  config_ = slice_of(plan, slice, servers);
  is_copy_ = message.copy() > 0;
  plan_bytes_ = message.SerializeAsString();
  round_.emplace(pieces_of(plan, config_.slice), collective::partials_of(plan.ends));
  const KeyShare share{slice, servers};
  rows_.reset();
  row_arrivals_.reset();
  if (plan.async) {
    row_arrivals_.emplace(plan, config_.slice, share);
  } else {
    rows_.emplace(plan, config_.slice, share);
  }
  tables_config_ = tables_of(plan, slice, servers);
  plan_ = std::move(plan);
  // What fails from here on ends the generation, for all of its workers.
  struct Undo {
    std::optional<Plan>& plan;
    bool made = false;
    ~Undo() {
      if (!made) plan.reset();
    }
  } undo{plan_};
  holding_ = shelf_->find(config_, tables_config_, plan_->floats);
  if (holding_ && holding_->tables) holding_->tables->drop_load();
  incoming_.reset();
  given_progress_.reset();
  in_use_ = has_stepped_ = false;
  done_ = 0;
  awaits_scale_ = false;
  finite_ = true;
  is_last_ = slice + 1 == servers;
  if (is_async()) TANDEM_TRY(make_copies());
  sums_.resize(plan_->clip.norm > 0 ? config_.slice.end - config_.slice.begin : 0);
  updated_.assign(round_->pieces().size(), optim::Updated::kFinite);
  if (!crew_ && updated_.size() >= kPiecesForTwo && std::thread::hardware_concurrency() > 1)
    crew_ = std::make_unique<Crew>(1);
  log_(fmt::format("generation {}: {} workers, floats {} to {} of {}{}", newest_generation_,
                   plan_->workers(), config_.slice.begin, config_.slice.end, plan_->floats,
                   is_copy_ ? fmt::format(", copy {}", message.copy()) : ""));
  undo.made = true;
  return {};
}

// Where both are on one host, and the worker wants it.
Status Service::share(PeerId peer, Member& member, const wire::PsBegin& begin,
                      wire::PsBegun& begun) {
  if (begin.memory().empty() || begin.host() != collective::host_identity()) return {};
  auto arena = collective::Arena::open(begin.memory());
  if (!arena.ok()) return {};  // It goes by the socket.
  TANDEM_ASSIGN(const std::size_t size, arena->size());
  const std::uint64_t rings = begin.rings();
  if (begin.memory_bytes() > size || rings % alignof(RingMemory) != 0 ||
      rings > begin.memory_bytes() || begin.memory_bytes() - rings < 2 * sizeof(RingMemory))
    return Error(Code::kInvalidArgument, "a worker's shared memory is smaller than it says");
  TANDEM_ASSIGN(member.memory, arena->map(0, begin.memory_bytes()));
  // The results' memory exists before the first worker asks for its place.
  if (!is_async() && !incoming_ && !holding_) {
    TANDEM_ASSIGN(incoming_, make_holding(config_, tables_config_, plan_->floats));
  }
  const collective::Arena& shared = is_async() ? *copies_.arena : *incoming_or_held().arena;
  const collective::Mapping& ours = is_async() ? copies_.memory : incoming_or_held().memory;
  begun.set_shared(true);
  begun.set_memory(shared.path());
  begun.set_memory_bytes(ours.size());
  auto* const memory = reinterpret_cast<RingMemory*>(member.memory.data() + rings);
  out_.share(peer, {.out = memory + 1,
                    .in = memory,
                    .own = {ours.data(), ours.size()},
                    .peers = {member.memory.data(), member.memory.size()}});
  return {};
}

Status Service::use(PeerId peer, const Header& header) {
  if (in_use_ && is_async()) {
    TANDEM_TRY(use_async(header.step));
    out_.send(peer, {.kind = Kind::kUsing, .step = header.step}, {});
    return {};
  }
  if (in_use_) return unexpected(header);
  const bool loaded = incoming_ || (holding_ && holding_->slice->is_loading());
  if (incoming_ && !incoming_->use(header.step).ok()) incoming_.reset();
  if (incoming_) {
    holding_ = std::exchange(incoming_, nullptr);
    shelf_->put(holding_);
  } else {
    if (!holding_)
      return Error(Code::kNotFound, fmt::format("no state after step {}", header.step));
    if (!is_async() || loaded) TANDEM_TRY(holding_->use(header.step));
  }
  if (loaded) {
    holding_->progress.reset();
    if (given_progress_) {
      TANDEM_ASSIGN(holding_->progress, from_wire(*given_progress_, plan_->lanes, parts_of_task()));
      holding_->tally = from_wire(given_progress_->tally());
    }
  }
  if (is_async()) TANDEM_TRY(use_async(header.step));
  holding_->used_in = newest_generation_;
  in_use_ = true;
  out_.send(peer, {.kind = Kind::kUsing, .step = header.step}, {});
  return {};
}

void Service::dismiss(const Error& why) {
  if (plan_) break_up(0, why);
}

void Service::gone(PeerId peer, const Error& why) {
  texts_.erase(peer);
  const auto member = members_.find(peer);
  if (member == members_.end()) return;
  const std::string name = member->second.name;
  settle();
  if (!plan_) return;
  break_up(peer, Error(why.code(), fmt::format("{}: {}", name, why.message())));
}

// The step under way is dropped; the state after the last one stays. Workers go on with others, but
// not where memory is out: the same would happen again.
void Service::break_up(PeerId guilty, const Error& why) {
  log_(fmt::format("generation {} is over: {}", newest_generation_, why.message()));
  for (const auto& [peer, member] : members_) {
    if (peer == guilty) continue;
    const Code code =
        guilty == 0 && why.code() == Code::kOutOfSpace ? Code::kOutOfSpace : Code::kPeerLost;
    out_.send_text(peer, {.kind = Kind::kFailed, .code = static_cast<std::uint16_t>(code)},
                   why.message());
    out_.close(peer);
  }
  members_.clear();
  plan_.reset();
  round_.reset();
  rows_.reset();
  row_arrivals_.reset();
  stepping_ = false;
  incoming_.reset();
  in_use_ = false;
  done_ = 0;
  awaits_scale_ = false;
  given_progress_.reset();
  order_ = {};
  arrivals_.reset();
  dispenser_.reset();
}

}  // namespace tandem::ps
