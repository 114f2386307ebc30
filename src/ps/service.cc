#include "ps/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/hash.h"
#include "optim/clip.h"

namespace tandem::ps {
namespace {

// Floats that are summed and used at a time: they stay in the first-level cache.
constexpr std::size_t kPart = 2048;
// So many pieces are used before the workers hear of them.
constexpr std::size_t kMostPieces = 64;

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
      if (is_async())
        return row_arrivals_->place(header, member->second.worker, *holding_->progress);
      return rows_->place(header, member->second.worker, holding_->slice->step());
    default:
      return unexpected(header);
  }
}

Status Service::check_push(PeerId peer, const Header& header) const {
  const Member& member = members_.at(peer);
  const int worker = member.worker;
  TANDEM_TRY(check_credit(peer, member, cost_of(header.bytes)));
  if (!is_async()) {
    TANDEM_TRY(check_rate(header, rows_->lr()));
    return round_->check(header, worker, holding_->slice->step());
  }
  // Of one that may have come too early more is known when it is due.
  if (header.slot != 0 || order_.has_push(peer, header.place)) return unexpected(header);
  return follows() ? arrivals_->check_shape(header, worker) : arrivals_->check(header, worker);
}

// A push counts until its result is on its way, so who does not read cannot push on.
Status Service::check_credit(PeerId peer, const Member& member, std::uint64_t cost) const {
  const std::uint64_t unsent = out_.unsent_results(peer);
  if (member.credit.allows(cost + unsent)) return {};
  return Error(Code::kInvalidArgument,
               fmt::format("refused {} bytes: {} are unanswered and {} of answers unread, and its "
                           "credit is {}",
                           cost, member.credit.unanswered(), unsent, member.credit.bytes()));
}

// A norm is known, and anything answered, only when all of a step has come.
void Service::grant(Member& member) const {
  const auto& partials = round_->partials();
  if (!is_async()) {
    member.partials = static_cast<std::size_t>(
        std::count_if(partials.begin(), partials.end(),
                      [&](const auto& each) { return each.worker == member.worker; }));
  }
  member.credit = Credit(round_->pieces(), member.partials,
                         plan_->clip.norm > 0 ? Credit::kNoLimit : credit_bytes_);
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
      // The answer is as large as a whole task.
      TANDEM_TRY(check_credit(peer, members_.at(peer), members_.at(peer).credit.bytes()));
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
      if (!in_use_) return unexpected(header);
      return is_async() ? take_rows_async(peer, header) : take_rows(peer, header);
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

Status Service::checksum(PeerId peer, const Header& header) {
  if (!in_use_) return unexpected(header);
  TANDEM_ASSIGN(std::string sum, holding_->slice->checksum(header.step));
  if (has_tables()) {
    if (header.step != holding_->tables->step()) return unexpected(header);
    sum += holding_->tables->checksum();
    sum = hash_hex(std::as_bytes(std::span(sum)));
  }
  out_.send_text(peer, {.kind = Kind::kSumIs, .step = header.step}, std::move(sum));
  return {};
}

Status Service::push(PeerId peer, const Header& header, std::span<const std::byte> payload) {
  if (!in_use_) return unexpected(header);
  TANDEM_TRY(check_push(peer, header));
  members_.at(peer).credit.take(cost_of(header.bytes));
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
  if (in_use_ && !is_async() && done_ < round_->complete().size()) advance();
}

void Service::for_pieces(std::size_t begin, std::size_t end,
                         const std::function<void(std::size_t)>& each) {
  if (crew_ && end - begin >= kPiecesForTwo) {
    crew_->run(begin, end, each);
  } else {
    for (std::size_t i = begin; i < end; ++i) each(i);
  }
}

void Service::advance() {
  const std::size_t all = round_->pieces().size();
  if (awaits_scale_) return;
  const bool rows_came = rows_->is_complete();
  const std::span<const std::size_t> complete = round_->complete();
  if (!stepping_ && (!complete.empty() || rows_came) && plan_->clip.norm <= 0) {
    holding_->slice->begin(lr());
    stepping_ = true;
  }
  if (rows_came && !has_tables()) take_complete_rows();
  for (std::size_t end = 0; done_ < complete.size(); done_ = end) {
    end = std::min(complete.size(), done_ + kMostPieces);
    if (plan_->clip.norm > 0) {
      for_pieces(done_, end, [&](std::size_t i) { sum_piece(complete[i]); });
    } else {
      for_pieces(done_, end,
                 [&](std::size_t i) { updated_[complete[i]] = apply_piece(complete[i]); });
      for (const std::size_t piece : complete.subspan(done_, end - done_)) send_piece(piece);
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
  for (auto& [peer, member] : members_) member.credit.give_back(cost_of(piece, member.partials));
}

// Without the floats the message still says where they lie: it goes the same way.
void Service::send_result(const Header& header, std::span<const float> floats) {
  const std::span<const std::byte> bytes = bytes_of(is_copy_ ? floats.first(0) : floats);
  for (const auto& [peer, member] : members_) out_.send_ahead(peer, header, bytes);
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
  // What the next forward needs first was pushed last.
  for (std::size_t done = 0, end = round_->pieces().size(); end > 0; end = done) {
    done = end - std::min(end, kMostPieces);
    for_pieces(done, end, [&](std::size_t index) {
      const Piece& piece = round_->pieces()[index];
      const Bucket at{piece.begin - config_.slice.begin, piece.end - config_.slice.begin};
      updated_[index] = slice.apply(at, std::span(sums_).subspan(at.begin, at.end - at.begin));
    });
    for (std::size_t index = end; index-- > done;) send_piece(index);
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
  note_push();
}

}  // namespace tandem::ps
