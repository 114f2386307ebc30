#include "ps/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "collective/host.h"
#include "optim/clip.h"
#include "ps/progress_wire.h"
#include "ps/scope.h"

namespace tandem::ps {
namespace {

// Floats that are summed and used at a time: they stay in the first-level cache.
constexpr std::size_t kPart = 2048;
// So many pieces are worth waking up another thread, and so many are used before the workers hear
// of them.
constexpr std::size_t kManyPieces = 16, kMostPieces = 64;

}  // namespace

Error unexpected(const Header& header) {
  return Error(Code::kInvalidArgument, fmt::format("a message of kind {} came where none was due",
                                                   static_cast<int>(header.kind)));
}

Status send_state(Outbox& out, const Shelf& shelf, PeerId to, const Header& fetch) {
  TANDEM_ASSIGN(const Shelf::Fetched fetched,
                shelf.fetch(fetch.step, fetch.slot, fetch.place, fetch.sequence));
  Header answer = fetch;
  answer.kind = Kind::kState;
  out.lend(to, answer, std::as_bytes(fetched.floats), fetched.owner);
  return {};
}

Result<std::span<std::byte>> Service::place(PeerId peer, const Header& header) {
  const auto member = members_.find(peer);
  switch (header.kind) {
    case Kind::kBegin:
    case Kind::kStretch:
    case Kind::kClose:
    case Kind::kProgress:
    case Kind::kTally:
    case Kind::kLoadRecords:
    case Kind::kFailed: {
      // Each peer has its own: several may be halfway through.
      std::vector<std::byte>& text = texts_[peer];
      text.resize(header.bytes);
      return std::span(text);
    }
    case Kind::kPush: {
      if (member == members_.end() || !in_use_) return unexpected(header);
      TANDEM_TRY(check_push(peer, header));
      std::vector<float>& memory = member->second.received[header.slot];
      const Piece& piece = round_->pieces()[header.place];
      // A partial sum that is alone is used as soon as a piece is there: one place, which stays in
      // the cache, is enough for all. Not at a copy where it may come too early.
      const bool alone = is_async() ? !follows() : round_->partials().size() == 1;
      const std::size_t slice = config_.slice.end - config_.slice.begin;
      if (memory.empty()) memory.resize(alone ? std::min(slice, kPieceFloats) : slice);
      return std::as_writable_bytes(std::span(memory).subspan(
          alone ? 0 : piece.begin - config_.slice.begin, piece.end - piece.begin));
    }
    case Kind::kLoad: {
      if (member == members_.end()) return unexpected(header);
      TANDEM_ASSIGN(const std::span<float> floats, place_of_load(header));
      return std::as_writable_bytes(floats);
    }
    case Kind::kRowList:
    case Kind::kPushRows:
      if (member == members_.end() || !in_use_) return unexpected(header);
      return rows_->place(header, member->second.worker, holding_->slice->step());
    default:
      return unexpected(header);
  }
}

Status Service::check_push(PeerId peer, const Header& header) const {
  const int worker = members_.at(peer).worker;
  if (!is_async()) return round_->check(header, worker, holding_->slice->step());
  // Of one that may have come too early more is known when it is due.
  if (header.slot != 0 || order_.has_push(peer, header.place)) return unexpected(header);
  return follows() ? arrivals_->check_shape(header, worker) : arrivals_->check(header, worker);
}

Result<std::span<float>> Service::place_of_load(const Header& header) {
  if (in_use_ || header.bytes % sizeof(float) != 0 || header.place < config_.slice.begin)
    return unexpected(header);
  if (!incoming_ && !holding_) {
    TANDEM_ASSIGN(incoming_, make_holding(config_, tables_config_, plan_->floats));
  }
  return incoming_or_held().slice->load(
      header.step, header.slot, header.place - config_.slice.begin, header.bytes / sizeof(float));
}

Status Service::message(PeerId peer, const Header& header, std::span<const std::byte> payload) {
  if (header.kind == Kind::kBegin) {
    Status begun = begin(peer, payload);
    texts_.erase(peer);
    return begun;
  }
  if (!members_.contains(peer)) return unexpected(header);
  if (header.kind != Kind::kPush) {
    settle();
    if (!plan_) return {};  // The step failed, and all were told.
  }
  switch (header.kind) {
    case Kind::kLoad:
      // What has no payload had no place either.
      if (header.bytes == 0) TANDEM_TRY(place_of_load(header));
      return {};
    case Kind::kUse:
      return use(peer, header);
    case Kind::kFetch:
      return send_state(out_, *shelf_, peer, header);
    case Kind::kSum:
      return checksum(peer, header);
    case Kind::kPush:
      return push(peer, header, payload);
    case Kind::kScale:
      return scale(header);
    case Kind::kPull:
      if (!arrivals_ || header.step != -1) return unexpected(header);
      return take_event({peer, header, payload});
    case Kind::kTask:
      return task(peer, header);
    case Kind::kStretch:
    case Kind::kClose:
    case Kind::kProgress:
    case Kind::kTally: {
      const Status done = header.kind == Kind::kStretch    ? stretch(peer, payload)
                          : header.kind == Kind::kClose    ? close(header, payload)
                          : header.kind == Kind::kProgress ? take_progress(header, payload)
                                                           : keep_tally(header, payload);
      texts_.erase(peer);
      return done;
    }
    case Kind::kRowList:
    case Kind::kPullRows:
    case Kind::kPushRows:
      return in_use_ ? take_rows(peer, header) : unexpected(header);
    case Kind::kFetchRecords:
      return fetch_records(peer, header);
    case Kind::kLoadRecords: {
      Status loaded = load_records(header, payload);
      texts_.erase(peer);
      return loaded;
    }
    case Kind::kSizes:
      return send_sizes(peer, header);
    case Kind::kFailed:
      return Error(
          Code::kPeerLost,
          fmt::format("{} gave up: {}", members_.at(peer).name,
                      std::string(reinterpret_cast<const char*>(payload.data()), payload.size())));
    default:
      return unexpected(header);
  }
}

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
  wire::PsBegun begun;
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
  rows_.emplace(plan, config_.slice, KeyShare{slice, servers});
  tables_config_ = tables_of(plan, slice, servers);
  plan_ = std::move(plan);
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
  if (!crew_ && updated_.size() >= kManyPieces && std::thread::hardware_concurrency() > 1)
    crew_ = std::make_unique<Crew>(1);
  log_(fmt::format("generation {}: {} workers, floats {} to {} of {}{}", newest_generation_,
                   plan_->workers(), config_.slice.begin, config_.slice.end, plan_->floats,
                   is_copy_ ? fmt::format(", copy {}", message.copy()) : ""));
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
      TANDEM_ASSIGN(holding_->progress,
                    from_wire(*given_progress_, plan_->lanes, round_->pieces().size()));
      holding_->tally = from_wire(given_progress_->tally());
    }
  }
  if (is_async()) TANDEM_TRY(use_async(header.step));
  holding_->used_in = newest_generation_;
  in_use_ = true;
  out_.send(peer, {.kind = Kind::kUsing, .step = header.step}, {});
  return {};
}

Status Service::checksum(PeerId peer, const Header& header) {
  if (!in_use_) return unexpected(header);
  TANDEM_ASSIGN(std::string sum, holding_->slice->checksum(header.step));
  out_.send_text(peer, {.kind = Kind::kSumIs, .step = header.step}, std::move(sum));
  return {};
}

Status Service::push(PeerId peer, const Header& header, std::span<const std::byte> payload) {
  if (!in_use_) return unexpected(header);
  TANDEM_TRY(check_push(peer, header));
  if (is_async()) return take_event({peer, header, payload});
  round_->add(header, floats_of(payload).data());
  // What lies in the worker's memory stays there.
  const collective::Mapping& shared = members_.at(peer).memory;
  const bool stays =
      payload.data() >= shared.data() && payload.data() < shared.data() + shared.size();
  if (!stays) advance();
  return {};
}

void Service::settle() {
  if (in_use_ && !is_async() && done_ < round_->complete()) advance();
}

void Service::for_pieces(std::size_t begin, std::size_t end,
                         const std::function<void(std::size_t)>& each) {
  if (crew_ && end - begin >= kManyPieces) {
    crew_->run(begin, end, each);
  } else {
    for (std::size_t i = begin; i < end; ++i) each(i);
  }
}

void Service::advance() {
  const std::size_t all = round_->pieces().size();
  if (awaits_scale_) return;
  const bool rows_came = rows_->is_complete();
  if (!stepping_ && (round_->complete() > 0 || rows_came) && plan_->clip.norm <= 0) {
    holding_->slice->begin(lr());
    stepping_ = true;
  }
  if (rows_came && !has_tables()) take_complete_rows();
  for (std::size_t end = 0; done_ < round_->complete(); done_ = end) {
    end = std::min(round_->complete(), done_ + kMostPieces);
    if (plan_->clip.norm > 0) {
      for_pieces(done_, end, [this](std::size_t piece) { sum_piece(piece); });
    } else {
      for_pieces(done_, end, [this](std::size_t piece) { updated_[piece] = apply_piece(piece); });
      for (std::size_t piece = done_; piece < end; ++piece) send_piece(piece);
    }
  }
  if (done_ == all && has_tables() && rows_->is_complete()) {
    // Last of all, so that either all of a step is done here or nothing.
    if (const Status stepped = step_tables(); !stepped.ok()) return break_up(0, stepped.error());
  }
  if (done_ < all || !(rows_->is_empty() || rows_->is_used())) return;
  if (plan_->clip.norm > 0) {
    send_norms();
  } else {
    end_step();
  }
}

optim::Updated Service::apply_piece(std::size_t index) {
  const Piece& piece = round_->pieces()[index];
  const std::span<const float* const> sources = round_->sources(index);
  const std::size_t first = piece.begin - config_.slice.begin, count = piece.end - piece.begin;
  DenseSlice& slice = *holding_->slice;
  // One partial sum is the sum, and is used where it lies.
  const bool alone = sources.size() == 1 && plan_->clip.value <= 0;
  std::array<float, kPart> sums;
  optim::Updated updated = optim::Updated::kFinite;
  for (std::size_t at = 0; at < count; at += kPart) {
    const std::size_t end = std::min(count, at + kPart);
    const Bucket part{first + at, first + end};
    optim::Updated now = optim::Updated::kFinite;
    if (alone) {
      now = slice.update(part, {sources[0] + at, end - at});
    } else {
      collective::add_partials({0, plan_->lanes}, round_->partials(), sources, {at, end},
                               sums.data());
      now = slice.apply(part, std::span(sums).first(end - at));
    }
    if (now == optim::Updated::kNotFinite) updated = now;
  }
  return updated;
}

void Service::send_piece(std::size_t index) {
  if (updated_[index] == optim::Updated::kNotFinite) finite_ = false;
  const Piece& piece = round_->pieces()[index];
  const Header result{.kind = Kind::kResult,
                      .code = static_cast<std::uint16_t>(finite_ ? 0 : 1),
                      .step = holding_->slice->step() + 1,
                      .place = index,
                      .number = norm_};
  send_result(result, holding_->slice->result(
                          {piece.begin - config_.slice.begin, piece.end - config_.slice.begin}));
}

// Without the floats the message still says where they lie: it goes the same way.
void Service::send_result(const Header& header, std::span<const float> floats) {
  const std::span<const std::byte> bytes = bytes_of(is_copy_ ? floats.first(0) : floats);
  for (const auto& [peer, member] : members_) out_.send(peer, header, bytes);
}

void Service::sum_piece(std::size_t index) {
  const Piece& piece = round_->pieces()[index];
  collective::add_partials({0, plan_->lanes}, round_->partials(), round_->sources(index),
                           {0, piece.end - piece.begin},
                           sums_.data() + (piece.begin - config_.slice.begin));
}

// The norm is that of all servers' sums: the first worker adds it up. Copies say that they have
// their sums, too, so that what it answers never comes before.
void Service::send_norms() {
  const std::size_t parameters = holding_->slice->parameters();
  const std::span<float> gradients = std::span(sums_).first(parameters);
  const optim::Range all{0, static_cast<std::int64_t>(parameters)};
  optim::clip_by_value(gradients, plan_->clip, std::span(&all, 1));
  squares_.clear();
  optim::add_squares(gradients, config_.slice.begin, plan_->trainable, squares_);
  awaits_scale_ = true;
  const std::span<const double> sent = is_copy_ ? std::span<const double>() : squares_;
  for (const auto& [peer, member] : members_) {
    if (member.worker == 0)
      out_.send(peer, {.kind = Kind::kNorms, .step = holding_->slice->step()}, std::as_bytes(sent));
  }
}

Status Service::scale(const Header& header) {
  if (!awaits_scale_ || header.step != holding_->slice->step()) return unexpected(header);
  awaits_scale_ = false;
  norm_ = std::bit_cast<double>(header.sequence);
  DenseSlice& slice = *holding_->slice;
  slice.begin(lr(), header.number);
  const std::size_t all = round_->pieces().size();
  for (std::size_t done = 0, end = 0; done < all; done = end) {
    end = std::min(all, done + kMostPieces);
    for_pieces(done, end, [&](std::size_t index) {
      const Piece& piece = round_->pieces()[index];
      const Bucket at{piece.begin - config_.slice.begin, piece.end - config_.slice.begin};
      updated_[index] = slice.apply(at, std::span(sums_).subspan(at.begin, at.end - at.begin));
    });
    for (std::size_t index = done; index < end; ++index) send_piece(index);
  }
  if (!rows_->is_empty()) end_rows(rows_->apply_sums(sums_, slice));
  end_step();
  return {};
}

void Service::end_step() {
  holding_->slice->commit();
  round_->next();
  rows_->next();
  done_ = 0;
  stepping_ = false;
  // All workers have pushed, so every server of the generation has its state.
  if (!std::exchange(has_stepped_, true)) shelf_->keep_only(newest_generation_);
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
