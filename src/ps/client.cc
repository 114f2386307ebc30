#include "ps/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <optional>

#include "base/check.h"
#include "collective/host.h"
#include "optim/clip.h"
#include "ps/connect.h"

namespace tandem::ps {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Looking, where that needs no system call, then giving the core away: a server may need it, also
// where there are enough of them, because what wakes it up puts it here.
constexpr std::chrono::microseconds kLooking{5}, kGiving{1000};
constexpr milliseconds kNap{20};
// Floats of a message that loads or fetches state.
constexpr std::size_t kStateFloats = std::size_t{1} << 18;

std::size_t pages(std::size_t bytes) {
  return (bytes + collective::Arena::kPage - 1) / collective::Arena::kPage *
         collective::Arena::kPage;
}

}  // namespace

// One server as this worker sees it.
class Client::ServerEnd final : public Receiver {
 public:
  ServerEnd(Client& client, std::size_t number, Descriptor socket, const net::Endpoint& endpoint)
      : client_(client),
        name_(fmt::format("server {} ({})", number, net::to_string(endpoint))),
        slice_(cut_slices(client.config_.plan.floats, client.config_.servers.size())[number]),
        pieces_(cut_pieces(slice_, client.config_.plan.buckets)),
        connection_(std::move(socket), name_) {
    results_.resize(pieces_.size());
  }

  const Bucket& slice() const { return slice_; }
  // It takes no part: there are more servers than blocks of the vector.
  bool is_idle() const { return pieces_.empty(); }
  Connection& connection() { return connection_; }
  const wire::PsBegun* begun() const { return begun_ ? &*begun_ : nullptr; }
  // Whether it has said that it has the state after `step` of a part of this vector.
  bool holds(std::int64_t step) const {
    const auto& steps = begun_->steps();
    return begun_->held_floats() == client_.config_.plan.floats &&
           begun_->held().begin() <= begun_->held().end() &&
           begun_->held().end() <= client_.config_.plan.floats &&
           std::find(steps.begin(), steps.end(), step) != steps.end();
  }

  void begin(const Header& header, std::string payload) {
    connection_.send_text(header, std::move(payload));
  }

  // Maps the server's memory, once it has said where it is.
  Status share(std::size_t rings) {
    if (!begun_->shared()) return {};
    auto arena = collective::Arena::open(begun_->memory());
    if (!arena.ok())
      return Error(Code::kPeerLost, fmt::format("{}: {}", name_, arena.error().message()));
    TANDEM_ASSIGN(const std::size_t size, arena->size());
    if (size < begun_->memory_bytes())
      return Error(Code::kCorrupt, fmt::format("{} shares less memory than it says", name_));
    TANDEM_ASSIGN(memory_, arena->map(0, begun_->memory_bytes()));
    auto* const memory = reinterpret_cast<RingMemory*>(client_.memory_.data() + rings);
    connection_.share({.out = memory,
                       .in = memory + 1,
                       .own = {client_.memory_.data(), client_.memory_.size()},
                       .peers = {memory_.data(), memory_.size()}});
    return {};
  }

  void begin_step() {
    pushed_ = came_ = 0;
    squares_came_ = false;
  }

  void push_ready() {
    for (; pushed_ < pieces_.size() && pieces_[pushed_].bucket < client_.buckets_ready_;
         ++pushed_) {
      const Piece& piece = pieces_[pushed_];
      for (const OwnPartial& partial : client_.partials_) {
        connection_.send({.kind = Kind::kPush,
                          .slot = partial.number,
                          .step = client_.step_,
                          .place = pushed_,
                          .number = client_.lr_},
                         bytes_of(partial.memory.subspan(piece.begin, piece.end - piece.begin)));
      }
    }
  }
  bool has_all() const { return came_ == pieces_.size(); }

  std::span<const float> result(std::size_t begin, std::size_t end) const {
    // Pieces are not in the vector's order, but inside a bucket they are.
    const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& each) {
      return each.begin <= begin && begin < each.end;
    });
    TANDEM_CHECK(piece != pieces_.end());
    const std::span<const float> floats =
        results_[static_cast<std::size_t>(piece - pieces_.begin())];
    return floats.subspan(begin - piece->begin, std::min(end, piece->end) - begin);
  }

  bool has_squares() const { return squares_came_ || is_idle(); }
  const std::vector<double>& squares() const { return squares_; }

  void fetch(std::int64_t step, std::uint32_t array, std::size_t begin, std::span<float> into) {
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
  bool has_fetched() const { return wanted_.empty(); }

  // Nothing of an array is worth a message, too: the server must know of the state.
  void load(std::int64_t step, std::uint32_t array, std::size_t begin,
            std::span<const float> from) {
    std::size_t at = 0;
    do {
      const std::size_t count = std::min(kStateFloats, from.size() - at);
      connection_.send({.kind = Kind::kLoad, .slot = array, .step = step, .place = begin + at},
                       bytes_of(from.subspan(at, count)));
      at += count;
    } while (at < from.size());
  }
  void use(std::int64_t step) {
    using_.reset();
    connection_.send({.kind = Kind::kUse, .step = step});
  }
  bool is_using(std::int64_t step) const { return using_ == step || is_idle(); }

  Result<std::span<std::byte>> place(const Header& header) override {
    switch (header.kind) {
      case Kind::kBegun:
      case Kind::kFailed:
        text_.resize(header.bytes);
        return std::as_writable_bytes(std::span(text_));
      case Kind::kResult: {
        TANDEM_TRY(check_result(header));
        if (client_.received_.empty()) client_.received_.resize(client_.config_.plan.floats);
        const Piece& piece = pieces_[header.place];
        return std::as_writable_bytes(
            std::span(client_.received_).subspan(piece.begin, piece.end - piece.begin));
      }
      case Kind::kState:
        if (!is_wanted(header)) return unexpected();
        return std::as_writable_bytes(wanted_.front().into);
      case Kind::kNorms:
        if (header.bytes % sizeof(double) != 0) return unexpected();
        squares_.resize(header.bytes / sizeof(double));
        return std::as_writable_bytes(std::span(squares_));
      default:
        return unexpected();
    }
  }

  Status message(const Header& header, std::span<const std::byte> payload) override {
    switch (header.kind) {
      case Kind::kBegun: {
        wire::PsBegun begun;
        if (begun_ || !begun.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
          return unexpected();
        begun_ = std::move(begun);
        return {};
      }
      case Kind::kUsing:
        using_ = header.step;
        return {};
      case Kind::kResult:
        TANDEM_TRY(check_result(header));
        results_[came_++] = floats_of(payload);
        client_.norm_ = header.number;
        if (header.code != 0) client_.finite_ = false;
        return {};
      case Kind::kState:
        if (!is_wanted(header)) return unexpected();
        wanted_.pop_front();
        return {};
      case Kind::kNorms:
        if (!has_all_pushed() || squares_came_ || header.step != client_.step_ ||
            header.bytes != squares_.size() * sizeof(double))
          return unexpected();
        squares_came_ = true;
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

 private:
  struct Wanted {
    std::size_t begin;
    std::uint32_t array;
    std::span<float> into;
  };

  bool is_wanted(const Header& state) const {
    return !wanted_.empty() && state.place == wanted_.front().begin &&
           state.slot == wanted_.front().array && state.bytes == wanted_.front().into.size_bytes();
  }
  bool has_all_pushed() const { return pushed_ == pieces_.size(); }

  Error unexpected() const {
    return Error(Code::kCorrupt, fmt::format("{} sent what was not due", name_));
  }

  Status check_result(const Header& header) const {
    const bool due = header.place == came_ && came_ < pushed_ && header.step == client_.step_ + 1;
    if (!due) return unexpected();
    const Piece& piece = pieces_[came_];
    if (header.bytes != (piece.end - piece.begin) * sizeof(float)) return unexpected();
    return {};
  }

  Client& client_;
  const std::string name_;
  const Bucket slice_;
  const std::vector<Piece> pieces_;
  Connection connection_;
  collective::Mapping memory_;  // The server's.
  std::string text_;
  std::optional<wire::PsBegun> begun_;
  std::optional<std::int64_t> using_;
  std::deque<Wanted> wanted_;

  // Of the step.
  std::size_t pushed_ = 0, came_ = 0;  // Pieces.
  std::vector<std::span<const float>> results_;
  std::vector<double> squares_;
  bool squares_came_ = false;
};

Client::Client(ClientConfig config) : config_(std::move(config)) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(ClientConfig config, Deadline deadline) {
  auto client = std::unique_ptr<Client>(new Client(std::move(config)));
  TANDEM_TRY(client->make_memory());
  TANDEM_TRY(client->open(deadline));
  return client;
}

// The rings of every server, then the partial sums.
Status Client::make_memory() {
  TANDEM_ASSIGN(collective::Arena arena, collective::Arena::create());
  arena_ = std::make_unique<collective::Arena>(std::move(arena));
  const auto all = collective::partials_of(config_.plan.ends);
  std::vector<std::uint32_t> own;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].worker == config_.worker) own.push_back(static_cast<std::uint32_t>(i));
  }
  const std::size_t rings = pages(2 * sizeof(RingMemory) * config_.servers.size());
  const std::size_t each = pages(config_.plan.floats * sizeof(float));
  TANDEM_ASSIGN(memory_, arena_->map(0, rings + own.size() * each));
  std::byte* at = memory_.data() + rings;
  for (const std::uint32_t number : own) {
    partials_.push_back({number, {reinterpret_cast<float*>(at), config_.plan.floats}});
    at += each;
  }
  return {};
}

Status Client::open(Deadline deadline) {
  const std::size_t count = config_.servers.size();
  for (std::size_t i = 0; i < count; ++i) {
    auto socket = connect_to(config_.servers[i], config_.token, deadline);
    if (!socket.ok()) {
      return std::move(socket).error().within(
          fmt::format("reach server {} at {}", i, net::to_string(config_.servers[i])));
    }
    servers_.push_back(
        std::make_unique<ServerEnd>(*this, i, std::move(socket).value(), config_.servers[i]));
    wire::PsBegin begin;
    *begin.mutable_plan() = to_wire(config_.plan, i, count);
    begin.set_worker(config_.worker);
    begin.set_name(config_.name);
    if (config_.sharing == Sharing::kWhereItCan) {
      begin.set_host(collective::host_identity());
      begin.set_memory(arena_->path());
      begin.set_memory_bytes(memory_.size());
      begin.set_rings(i * 2 * sizeof(RingMemory));
    }
    servers_.back()->begin({.kind = Kind::kBegin}, begin.SerializeAsString());
  }
  TANDEM_TRY(await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->begun() != nullptr; });
      },
      "begin", deadline));
  for (std::size_t i = 0; i < count; ++i)
    TANDEM_TRY(servers_[i]->share(i * 2 * sizeof(RingMemory)));
  return {};
}

bool Client::all_have(std::int64_t step) const {
  return std::all_of(servers_.begin(), servers_.end(), [&](const auto& server) {
    if (server->is_idle()) return true;
    const wire::PsBegun& begun = *server->begun();
    return server->holds(step) && begun.held().begin() == server->slice().begin &&
           begun.held().end() == server->slice().end;
  });
}

bool Client::can_fetch(std::int64_t step) const {
  std::vector<std::pair<std::size_t, std::size_t>> held;
  for (const auto& server : servers_) {
    const wire::PsRange& range = server->begun()->held();
    if (server->holds(step)) held.emplace_back(range.begin(), range.end());
  }
  std::sort(held.begin(), held.end());
  std::size_t covered = 0;
  for (const auto& [begin, end] : held) {
    if (begin <= covered) covered = std::max(covered, end);
  }
  return covered >= config_.plan.parameters;
}

Status Client::fetch(std::int64_t step, const Arrays& into, Deadline deadline) {
  for (auto& server : servers_) {
    if (!has_own_slices_ && !server->holds(step)) continue;
    const wire::PsBegun& begun = *server->begun();
    // What it said at the beginning, until it was told what to go on from.
    const Bucket held =
        has_own_slices_ ? server->slice() : Bucket{begun.held().begin(), begun.held().end()};
    const std::size_t end = std::min(held.end, config_.plan.parameters);
    for (std::size_t array = 0; array < into.size() && held.begin < end; ++array) {
      if (into[array].empty()) continue;
      server->fetch(step, static_cast<std::uint32_t>(array), held.begin,
                    into[array].subspan(held.begin, end - held.begin));
    }
  }
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->has_fetched(); });
      },
      "fetch the state", deadline);
}

Status Client::load(std::int64_t step, const Arrays& from, Deadline deadline) {
  for (auto& server : servers_) {
    if (server->is_idle()) continue;
    const Bucket& slice = server->slice();
    const std::size_t end = std::clamp(config_.plan.parameters, slice.begin, slice.end);
    const std::size_t first = std::min(slice.begin, config_.plan.parameters);
    for (std::size_t array = 0; array < from.size(); ++array) {
      server->load(step, static_cast<std::uint32_t>(array), slice.begin,
                   from[array].subspan(first, end - slice.begin));
    }
  }
  return use(step, deadline);
}

Status Client::use(std::int64_t step, Deadline deadline) {
  has_own_slices_ = true;
  for (auto& server : servers_) {
    if (!server->is_idle()) server->use(step);
  }
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [&](const auto& server) { return server->is_using(step); });
      },
      "go on from a state", deadline);
}

void Client::begin(std::int64_t steps_done, double lr) {
  step_ = steps_done;
  lr_ = lr;
  buckets_ready_ = 0;
  norm_ = 0;
  finite_ = true;
  scaled_ = false;
  for (auto& server : servers_) server->begin_step();
}

Status Client::ready(std::size_t count) {
  buckets_ready_ += count;
  for (auto& server : servers_) server->push_ready();
  TANDEM_ASSIGN([[maybe_unused]] const bool moved, turn_all());
  return {};
}

Status Client::finish(Deadline deadline) {
  TANDEM_CHECK(buckets_ready_ == config_.plan.buckets.size());
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->has_all(); });
      },
      "give its results", deadline);
}

std::span<const float> Client::result(const Bucket& at) const {
  const auto server = std::find_if(servers_.begin(), servers_.end(), [&](const auto& each) {
    return each->slice().begin <= at.begin && at.begin < each->slice().end;
  });
  TANDEM_CHECK(server != servers_.end());
  return (*server)->result(at.begin, std::min(at.end, (*server)->slice().end));
}

// The first worker adds up the norm of all servers' gradients, and tells them what it means.
Status Client::answer_norms() {
  if (scaled_ || config_.plan.clip.norm <= 0 || config_.worker != 0) return {};
  for (const auto& server : servers_) {
    if (!server->has_squares()) return {};
  }
  double sum = 0;
  for (const auto& server : servers_) {
    for (const double square : server->squares()) sum += square;
  }
  scaled_ = true;
  const optim::Clipping clipping = optim::clipping_of(sum, config_.plan.clip);
  for (auto& server : servers_) {
    if (server->is_idle()) continue;
    server->connection().send({.kind = Kind::kScale,
                               .step = step_,
                               .number = clipping.scale,
                               .sequence = std::bit_cast<std::uint64_t>(clipping.norm)});
  }
  return {};
}

Result<bool> Client::turn_all() {
  bool moved = false;
  for (auto& server : servers_) {
    TANDEM_ASSIGN(const bool turned, server->connection().turn(*server));
    moved |= turned;
  }
  if (moved) TANDEM_TRY(answer_norms());
  return moved;
}

template <typename Done>
Status Client::await(Done done, const std::string& what, Deadline deadline) {
  const Clock::time_point began = Clock::now();
  Clock::time_point moved_at = began;
  const auto looking = shares_memory() ? kLooking : std::chrono::microseconds(0);
  for (;;) {
    TANDEM_ASSIGN(const bool moved, turn_all());
    if (done()) return {};
    const Clock::time_point now = Clock::now();
    if (moved) {
      moved_at = now;
    } else if (now >= deadline) {
      return Error(
          Code::kTimeout,
          fmt::format("the servers did not {} within {:.1f} s; a worker is late, or one of "
                      "the {} servers is",
                      what, std::chrono::duration<double>(now - began).count(), servers_.size()));
    } else if (now - moved_at > kGiving) {
      sleep(std::min(kNap, std::chrono::ceil<milliseconds>(deadline - now)));
    } else if (now - moved_at > looking) {
      ::sched_yield();
    }
  }
}

void Client::sleep(milliseconds at_most) {
  std::vector<pollfd> entries;
  bool may_sleep = true;
  for (auto& server : servers_) {
    Connection& connection = server->connection();
    may_sleep = connection.doze() && may_sleep;
    // Nobody rings when a full ring has room again.
    if (connection.waits_for_ring()) at_most = std::min(at_most, milliseconds(1));
    const short events = connection.has_unsent() ? POLLIN | POLLOUT : POLLIN;
    entries.push_back({connection.fd(), events, 0});
  }
  if (may_sleep) ::poll(entries.data(), entries.size(), static_cast<int>(at_most.count()));
  for (auto& server : servers_) server->connection().wake();
}

bool Client::shares_memory() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const auto& server) { return server->connection().is_shared(); });
}

collective::Traffic Client::traffic() const {
  collective::Traffic traffic;
  for (const auto& server : servers_) {
    traffic.sent += server->connection().sent_bytes();
    traffic.received += server->connection().received_bytes();
  }
  return traffic;
}

}  // namespace tandem::ps
