#include "ps/server_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ps/scope.h"

namespace tandem::ps {
namespace {

// Floats of a message that loads or fetches state.
constexpr std::size_t kStateFloats = std::size_t{1} << 18;

}  // namespace

ServerEnd::ServerEnd(ClientStep& now, const SliceCopy& which, net::SecureSocket socket,
                     const net::Endpoint& endpoint)
    : now_(now),
      which_(which),
      name_(fmt::format("server {} ({})", which.server(now.servers), net::to_string(endpoint))),
      slice_(slices_of(now.plan, now.servers)[which.slice]),
      pieces_(pieces_of(now.plan, slice_)),
      connection_(std::move(socket), name_),
      rows_(now.plan, slice_, {which.slice, now.servers},
            which.copy == 0 ? Gives::kRows : Gives::kNothing, connection_),
      order_(pieces_),
      states_(pieces_.size()),
      results_(pieces_.size()),
      numbers_(pieces_.size()) {}

ServerEnd::ServerEnd(ClientStep& now, net::SecureSocket socket, const net::Endpoint& endpoint)
    : now_(now),
      name_(fmt::format("a server that leaves ({})", net::to_string(endpoint))),
      connection_(std::move(socket), name_),
      rows_({}, {}, {}, Gives::kNothing, connection_),
      order_(pieces_) {}

bool ServerEnd::has_step(const wire::PsHeld& held, std::int64_t step) const {
  return held.floats() == now_.plan.floats &&
         std::find(held.steps().begin(), held.steps().end(), step) != held.steps().end();
}

std::vector<Bucket> ServerEnd::held(std::int64_t step) const {
  std::vector<Bucket> parts;
  for (const wire::PsHeld& each : begun_->held()) {
    const Bucket part{each.range().begin(), each.range().end()};
    if (has_step(each, step) && part.begin <= part.end && part.end <= now_.plan.floats)
      parts.push_back(part);
  }
  return parts;
}

bool ServerEnd::has_slice(std::int64_t step) const {
  if (begun_->has_progress() && begun_->progress().from() == step) return true;
  // In one of its holdings, rows and slice.
  return std::any_of(begun_->held().begin(), begun_->held().end(), [&](const wire::PsHeld& each) {
    const bool has_rows =
        !now_.plan.is_sparse() || (each.share() == which_.slice && each.shares() == now_.servers);
    return has_rows && has_step(each, step) && each.range().begin() == slice_.begin &&
           each.range().end() == slice_.end;
  });
}

std::vector<KeyShare> ServerEnd::shares(std::int64_t step) const {
  std::vector<KeyShare> all;
  for (const wire::PsHeld& each : begun_->held()) {
    if (has_step(each, step) && each.share() < each.shares())
      all.push_back({each.share(), each.shares()});
  }
  return all;
}

std::uint64_t ServerEnd::updates(std::int64_t step) const {
  const wire::PsProgress& progress = begun_->progress();
  return begun_->has_progress() && progress.from() == step ? progress.updates() : 0;
}

Status ServerEnd::share(std::size_t rings) {
  if (!begun_->shared()) return {};
  auto arena = collective::Arena::open(begun_->memory());
  if (!arena.ok())
    return Error(Code::kPeerLost, fmt::format("{}: {}", name_, arena.error().message()));
  TANDEM_ASSIGN(const std::size_t size, arena->size());
  if (size < begun_->memory_bytes())
    return Error(Code::kCorrupt, fmt::format("{} shares less memory than it says", name_));
  TANDEM_ASSIGN(memory_, arena->map(0, begun_->memory_bytes()));
  auto* const memory = reinterpret_cast<RingMemory*>(now_.memory.data() + rings);
  connection_.share({.out = memory,
                     .in = memory + 1,
                     .own = {now_.memory.data(), now_.memory.size()},
                     .peers = {memory_.data(), memory_.size()}});
  return {};
}

void ServerEnd::begin_step() {
  order_.begin();
  std::fill(states_.begin(), states_.end(), PieceState::kHere);
  came_ = 0;
  squares_came_ = false;
  rows_.begin_step();
}

Overtaking ServerEnd::overtaking() const {
  // Workers overtake, each in its own way: with less than a step's credit, each might wait for the
  // others' share of another piece.
  std::uint64_t step = 0;
  for (const Piece& piece : pieces_) step += cost_of(piece, now_.partials.size());
  const bool may = now_.moves_meanwhile && step <= credit_.bytes();
  return may ? Overtaking::kLastReadyFirst : Overtaking::kNever;
}

Status ServerEnd::push_ready() {
  waits_to_push_ = false;
  order_.set_ready(now_.buckets_ready);
  const Overtaking how = overtaking();
  while (const auto next = order_.next(how)) {
    if (first_ != nullptr && *next >= first_->came_) break;
    const Piece& piece = pieces_[*next];
    const std::uint64_t cost = cost_of(piece, now_.partials.size());
    const bool overtakes = how == Overtaking::kLastReadyFirst;
    waits_to_push_ = !credit_.allows(cost) || (overtakes && connection_.has_unsent());
    if (waits_to_push_) break;
    credit_.take(cost);
    order_.take(*next);
    states_[*next] = PieceState::kPushed;
    for (const ClientStep::OwnPartial& partial : now_.partials) {
      connection_.send({.kind = Kind::kPush,
                        .slot = partial.number,
                        .step = now_.step,
                        .place = *next,
                        .number = now_.lr,
                        .sequence = first_ ? first_->numbers_[*next] : now_.samples},
                       bytes_of(partial.memory.subspan(piece.begin, piece.end - piece.begin)));
    }
    // What is in the queue cannot be overtaken any more.
    if (overtakes) {
      connection_.keep_unsent_here();
      TANDEM_TRY(connection_.flush());
    }
  }
  if (rows_.is_empty()) return {};
  std::vector<RowSource> sources;
  for (const ClientStep::OwnPartial& partial : now_.partials)
    sources.push_back({partial.number, partial.memory});
  return rows_.push(sources, now_.buckets_ready, now_.step, now_.lr);
}

bool ServerEnd::has_part(const Bucket& part) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const bool is_inside = pieces_[i].begin < part.end && part.begin < pieces_[i].end;
    if (is_inside && states_[i] != PieceState::kCame) return false;
  }
  return true;
}

std::span<const float> ServerEnd::result(std::size_t begin, std::size_t end) const {
  // Pieces are not in the vector's order, but inside a bucket they are.
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& each) {
    return each.begin <= begin && begin < each.end;
  });
  TANDEM_CHECK(piece != pieces_.end());
  const std::span<const float> floats = results_[static_cast<std::size_t>(piece - pieces_.begin())];
  return floats.subspan(begin - piece->begin, std::min(end, piece->end) - begin);
}

void ServerEnd::fetch(std::int64_t step, std::uint32_t array, std::size_t begin,
                      std::span<float> into) {
  for (std::size_t at = 0; at < into.size(); at += kStateFloats) {
    const std::size_t count = std::min(kStateFloats, into.size() - at);
    wanted_.push_back({begin + at, array, into.subspan(at, count)});
    connection_.send({.kind = Kind::kFetch,
                      .slot = array,
                      .step = step,
                      .place = begin + at,
                      .sequence = count});
  }
}

// Nothing of an array is worth a message, too: the server must know of the state.
void ServerEnd::load(std::int64_t step, std::uint32_t array, std::size_t begin,
                     std::span<const float> from) {
  std::size_t at = 0;
  do {
    const std::size_t count = std::min(kStateFloats, from.size() - at);
    connection_.send({.kind = Kind::kLoad, .slot = array, .step = step, .place = begin + at},
                     bytes_of(from.subspan(at, count)));
    at += count;
  } while (at < from.size());
}

void ServerEnd::set_progress(const wire::PsProgress& progress) {
  connection_.send_text({.kind = Kind::kProgress}, progress.SerializeAsString());
}

void ServerEnd::use(std::int64_t step) {
  using_.reset();
  connection_.send({.kind = Kind::kUse, .step = step});
}

void ServerEnd::pull() {
  came_ = 0;
  order_.skip();
  std::fill(states_.begin(), states_.end(), PieceState::kPushed);
  rows_.begin_nothing();
  awaits_pull_ = first_ != nullptr;
  if (!awaits_pull_) connection_.send({.kind = Kind::kPull, .step = now_.step});
}

Status ServerEnd::pass_on() {
  if (first_ == nullptr || first_->came_ == 0) return {};
  if (std::exchange(awaits_pull_, false))
    connection_.send(
        {.kind = Kind::kPull, .step = now_.step, .sequence = first_->numbers_.front()});
  return push_ready();
}

void ServerEnd::set_stretch(const wire::PsStretch& stretch) {
  using_.reset();
  connection_.send_text({.kind = Kind::kStretch}, stretch.SerializeAsString());
}

void ServerEnd::ask_for_task(const Header& task) {
  asked_ = true;
  task_.reset();
  stretch_end_.reset();
  connection_.send(task);
}

void ServerEnd::ask_records(std::int64_t step, const KeyShare& share, std::size_t table,
                            Records what, std::size_t from) {
  records_asked_ = {.kind = Kind::kFetchRecords,
                    .code = static_cast<std::uint16_t>(share.number),
                    .slot = static_cast<std::uint32_t>(what),
                    .step = step,
                    .place = table,
                    .number = static_cast<double>(share.of),
                    .sequence = from};
  connection_.send(*records_asked_);
}

void ServerEnd::load_records(std::int64_t step, std::size_t table, Records what,
                             std::string records) {
  connection_.send_text({.kind = Kind::kLoadRecords,
                         .slot = static_cast<std::uint32_t>(what),
                         .step = step,
                         .place = table},
                        std::move(records));
}

void ServerEnd::ask_sizes() {
  sizes_.reset();
  sizes_asked_ = true;
  connection_.send({.kind = Kind::kSizes});
}

void ServerEnd::ask_checksum(std::int64_t step) {
  checksum_.clear();
  sum_asked_ = step;
  connection_.send({.kind = Kind::kSum, .step = step});
}

Result<std::span<std::byte>> ServerEnd::place(const Header& header) {
  if (RowEnd::is_mine(header)) return rows_.place(header);
  switch (header.kind) {
    case Kind::kBegun:
    case Kind::kTask:
    case Kind::kStretchEnd:
    case Kind::kFailed:
    case Kind::kSumIs:
    case Kind::kSizesAre:
      text_.resize(header.bytes);
      return std::as_writable_bytes(std::span(text_));
    case Kind::kResult: {
      TANDEM_TRY(check_result(header));
      if (now_.received.empty()) now_.received.resize(now_.plan.floats);
      const Piece& piece = pieces_[header.place];
      return std::as_writable_bytes(
          std::span(now_.received).subspan(piece.begin, piece.end - piece.begin));
    }
    case Kind::kState:
      if (!is_wanted(header)) return unexpected();
      return std::as_writable_bytes(wanted_.front().into);
    case Kind::kRecords:
      if (!records_asked_) return unexpected();
      records_.resize(header.bytes);
      return std::as_writable_bytes(std::span(records_));
    case Kind::kNorms:
      if (header.bytes % sizeof(double) != 0) return unexpected();
      squares_.resize(header.bytes / sizeof(double));
      return std::as_writable_bytes(std::span(squares_));
    default:
      return unexpected();
  }
}

Status ServerEnd::message(const Header& header, std::span<const std::byte> payload) {
  if (RowEnd::is_mine(header)) {
    TANDEM_TRY(rows_.message(header));
    if (!rows_.is_finite()) now_.is_finite = false;
    return {};
  }
  switch (header.kind) {
    case Kind::kBegun: {
      wire::PsBegun begun;
      if (begun_ || !begun.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
        return unexpected();
      if (begun.credit_bytes() == 0 && !pieces_.empty())
        return Error(Code::kVersionMismatch, fmt::format("{} grants no credit", name_));
      credit_ = Credit(begun.credit_bytes());
      begun_ = std::move(begun);
      return {};
    }
    case Kind::kUsing:
      using_ = header.step;
      return {};
    case Kind::kResult:
      TANDEM_TRY(check_result(header));
      if (!is_copy()) results_[header.place] = floats_of(payload);
      numbers_[header.place] = header.sequence;
      // What was pulled was not pushed, and took nothing.
      credit_.give_back(cost_of(pieces_[header.place], now_.partials.size()));
      states_[header.place] = PieceState::kCame;
      ++came_;
      now_.norm = header.number;
      if (header.code != 0) now_.is_finite = false;
      return {};
    case Kind::kState:
      if (!is_wanted(header)) return unexpected();
      wanted_.pop_front();
      return {};
    case Kind::kNorms:
      if (!has_all_pushed() || squares_came_ || header.step != now_.step ||
          header.bytes != squares_.size() * sizeof(double))
        return unexpected();
      squares_came_ = true;
      return {};
    case Kind::kTask:
      if (!std::exchange(asked_, false) || header.step < 0 ||
          !news_.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
        return unexpected();
      task_ = header;
      return {};
    case Kind::kStretchEnd: {
      wire::PsStretchEnd end;
      if (!std::exchange(asked_, false) ||
          !end.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
        return unexpected();
      stretch_end_ = std::move(end);
      return {};
    }
    case Kind::kRecords:
      if (!records_asked_ || header.place != records_asked_->place ||
          header.slot != records_asked_->slot || header.step != records_asked_->step ||
          header.sequence != records_asked_->sequence || !(header.number >= 0) ||
          header.number > 0x1p53)
        return unexpected();
      if (header.bytes == 0) records_.clear();
      records_asked_.reset();
      all_records_ = static_cast<std::size_t>(header.number);
      return {};
    case Kind::kSizesAre: {
      wire::PsTableSizes sizes;
      if (!std::exchange(sizes_asked_, false) ||
          !sizes.ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
          sizes.tables_size() != static_cast<int>(now_.plan.tables.size()))
        return unexpected();
      sizes_ = std::move(sizes);
      return {};
    }
    case Kind::kSumIs:
      if (header.step != sum_asked_ || text_.empty() || header.bytes != text_.size())
        return unexpected();
      sum_asked_.reset();
      checksum_ = text_;
      return {};
    case Kind::kFailed: {
      const auto code = header.code <= static_cast<std::uint16_t>(Code::kInternal)
                            ? static_cast<Code>(header.code)
                            : Code::kInternal;
      return Error(code, fmt::format("{}: {}", name_, text_));
    }
    default:
      return unexpected();
  }
}

bool ServerEnd::is_wanted(const Header& state) const {
  return !wanted_.empty() && state.place == wanted_.front().begin &&
         state.slot == wanted_.front().array && state.bytes == wanted_.front().into.size_bytes();
}

Error ServerEnd::unexpected() const {
  return Error(Code::kCorrupt, fmt::format("{} sent what was not due", name_));
}

Status ServerEnd::check_result(const Header& header) const {
  // Of a task in the order of its pieces; of a step in that in which all workers have pushed them.
  const bool due = header.place < pieces_.size() && states_[header.place] == PieceState::kPushed &&
                   (!now_.plan.async || header.place == came_) && header.step == now_.step + 1;
  if (!due) return unexpected();
  const Piece& piece = pieces_[header.place];
  const std::size_t floats = is_copy() ? 0 : piece.end - piece.begin;
  if (header.bytes != floats * sizeof(float)) return unexpected();
  return {};
}

}  // namespace tandem::ps
