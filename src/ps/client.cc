#include "ps/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>

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

std::size_t pages(std::size_t bytes) {
  return (bytes + collective::Arena::kPage - 1) / collective::Arena::kPage *
         collective::Arena::kPage;
}

}  // namespace

Client::Client(ClientConfig config)
    : config_(std::move(config)), now_(config_.plan, config_.servers.size()) {}

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
  const auto all = config_.plan.async ? std::vector<collective::Partial>()
                                      : collective::partials_of(config_.plan.ends);
  std::vector<std::uint32_t> own(config_.plan.async ? 1 : 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].worker == config_.worker) own.push_back(static_cast<std::uint32_t>(i));
  }
  const std::size_t rings = pages(2 * sizeof(RingMemory) * config_.servers.size());
  const std::size_t each = pages(config_.plan.floats * sizeof(float));
  TANDEM_ASSIGN(now_.memory, arena_->map(0, rings + own.size() * each));
  std::byte* at = now_.memory.data() + rings;
  for (const std::uint32_t number : own) {
    now_.partials.push_back({number, {reinterpret_cast<float*>(at), config_.plan.floats}});
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
        std::make_unique<ServerEnd>(now_, i, std::move(socket).value(), config_.servers[i]));
    wire::PsBegin begin;
    *begin.mutable_plan() = to_wire(config_.plan, i, count);
    begin.set_worker(config_.worker);
    begin.set_name(config_.name);
    if (config_.sharing == Sharing::kWhereItCan) {
      begin.set_host(collective::host_identity());
      begin.set_memory(arena_->path());
      begin.set_memory_bytes(now_.memory.size());
      begin.set_rings(i * 2 * sizeof(RingMemory));
    }
    servers_.back()->connection().send_text({.kind = Kind::kBegin}, begin.SerializeAsString());
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
  goes_on_ = false;
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

void Client::begin(std::int64_t steps_done, double lr, std::uint64_t samples) {
  now_.step = steps_done;
  now_.lr = lr;
  now_.samples = samples;
  now_.buckets_ready = 0;
  now_.norm = 0;
  now_.is_finite = true;
  scaled_ = false;
  for (auto& server : servers_) server->begin_step();
}

Status Client::ready(std::size_t count) {
  now_.buckets_ready += count;
  for (auto& server : servers_) server->push_ready();
  TANDEM_ASSIGN([[maybe_unused]] const bool moved, turn_all());
  return {};
}

Status Client::finish(Deadline deadline) {
  TANDEM_CHECK(now_.buckets_ready == config_.plan.buckets.size());
  return await_results(deadline);
}

Status Client::await_results(Deadline deadline) {
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
                               .step = now_.step,
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

Status Client::await(const std::function<bool()>& done, const std::string& what,
                     Deadline deadline) {
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
