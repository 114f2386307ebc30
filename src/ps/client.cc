#include "ps/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

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
    : config_(std::move(config)),
      now_(config_.plan, config_.servers.size()),
      passes_on_(config_.plan.replicas > 1 && config_.plan.async &&
                 config_.plan.async->applying == Applying::kAtOnce) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(ClientConfig config, Deadline deadline) {
  auto client = std::unique_ptr<Client>(new Client(std::move(config)));
  TANDEM_TRY(client->make_memory());
  TANDEM_TRY(client->open(deadline));
  if (client->comes_in_parts()) {
    TANDEM_ASSIGN(client->pump_,
                  Pump::create({[&each = *client] { return each.turn_all(); },
                                [&each = *client](auto& entries) { each.add_awaited(entries); }}));
    client->now_.moves_meanwhile = true;
  }
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
  const std::size_t rings =
      pages(2 * sizeof(RingMemory) * config_.servers.size() * config_.plan.replicas);
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
  present_ = count * config_.plan.replicas;
  for (std::size_t i = 0; i < present_; ++i) {
    const SliceCopy which{i % count, i / count};
    const net::Endpoint& endpoint = config_.servers[which.server(count)];
    auto socket = connect_to(endpoint, config_.token, config_.tls, deadline);
    if (!socket.ok()) {
      return std::move(socket).error().within(
          fmt::format("reach server {} at {}", which.server(count), net::to_string(endpoint)));
    }
    servers_.push_back(
        std::make_unique<ServerEnd>(now_, which, std::move(socket).value(), endpoint));
    if (passes_on_ && i >= count) servers_[i]->follow(*servers_[which.slice]);
    wire::PsBegin begin;
    *begin.mutable_plan() = to_wire(config_.plan, which, count);
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
  TANDEM_TRY(open_former(deadline));
  TANDEM_TRY(await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->begun() != nullptr; });
      },
      "begin", deadline));
  for (std::size_t i = 0; i < present_; ++i)
    TANDEM_TRY(servers_[i]->share(i * 2 * sizeof(RingMemory)));
  return {};
}

Status Client::open_former(Deadline deadline) {
  for (const net::Endpoint& endpoint : config_.former) {
    auto socket = connect_to(endpoint, config_.token, config_.tls, deadline);
    if (!socket.ok()) {
      return std::move(socket).error().within(
          fmt::format("reach a server that leaves, at {}", net::to_string(endpoint)));
    }
    servers_.push_back(std::make_unique<ServerEnd>(now_, std::move(socket).value(), endpoint));
    wire::PsBegin begin;
    begin.mutable_plan()->set_generation(config_.plan.generation);
    begin.set_name(config_.name);
    begin.set_only_fetches(true);
    servers_.back()->connection().send_text({.kind = Kind::kBegin}, begin.SerializeAsString());
  }
  return {};
}

Status Client::fetch(std::int64_t step, const Arrays& into, Deadline deadline) {
  const Bucket all{config_.plan.first(), config_.plan.parameters};
  return fetch(step, std::span(&all, 1), into, deadline);
}

Status Client::fetch(std::int64_t step, std::span<const Bucket> ranges, const Arrays& into,
                     Deadline deadline) {
  for (const Bucket& range : ranges) {
    const auto from = sources(step, range);
    if (!from) {
      return Error(Code::kNotFound,
                   fmt::format("no server has all of floats {} to {} after step {}", range.begin,
                               range.end, step));
    }
    for (const Source& source : *from) {
      const std::size_t count = source.part.end - source.part.begin;
      for (std::size_t array = 0; array < into.size(); ++array) {
        if (into[array].empty()) continue;
        source.server->fetch(step, static_cast<std::uint32_t>(array), source.part.begin,
                             into[array].subspan(source.part.begin, count));
      }
    }
  }
  return await_fetched(deadline);
}

Status Client::fetch_tables(std::int64_t step, std::span<float> parameters, Deadline deadline) {
  for (const auto& server : first_holders()) {
    for (const RowRange& range : rows_in(server->slice(), config_.plan.tables)) {
      server->fetch(step, 0, range.begin,
                    parameters.subspan(range.begin, range.at(range.last) - range.begin));
    }
  }
  return await_fetched(deadline);
}

Status Client::await_fetched(Deadline deadline) {
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->has_fetched(); });
      },
      "fetch the state", deadline);
}

Status Client::pull_rows(std::int64_t steps_done, std::span<const RowLists> rows,
                         std::span<float> parameters, Deadline deadline) {
  const std::size_t tables = config_.plan.tables.size();
  TANDEM_CHECK(rows.size() == partials());
  all_rows_.resize(tables);
  merged_.resize(tables);
  for (RowList& list : all_rows_) list.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TANDEM_CHECK(rows[i].size() == tables);
    for (std::size_t table = 0; table < tables; ++table) {
      merged_[table].clear();
      std::ranges::set_union(all_rows_[table], rows[i][table], std::back_inserter(merged_[table]));
      std::swap(all_rows_[table], merged_[table]);
    }
  }
  pulled_ = steps_done;
  for (auto& server : servers_) server->rows().pull(steps_done, all_rows_, rows, parameters);
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->rows().has_pulled(); });
      },
      "give the rows that were asked for", deadline);
}

void Client::begin(std::int64_t steps_done, double lr, std::uint64_t samples) {
  TANDEM_CHECK(config_.plan.tables.empty() || steps_done == kNoTask || pulled_ == steps_done);
  const auto held = hold();
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
  const auto held = hold();
  if (pump_) TANDEM_TRY(pump_->status());
  now_.buckets_ready += count;
  return kept(push_ready());
}

Status Client::push_ready() {
  // Whoever was answered by a first holder must pass that on at once: others wait for it. So
  // nothing is pushed before there is nothing else to do than that.
  if (passes_on_ && now_.buckets_ready < config_.plan.buckets.size()) return {};
  for (auto& server : servers_) TANDEM_TRY(server->push_ready());
  TANDEM_ASSIGN([[maybe_unused]] const bool moved, turn_all());
  if (pump_ && !all_sent()) pump_->start();
  return {};
}

Status Client::finish(Deadline deadline) {
  TANDEM_CHECK(now_.buckets_ready == config_.plan.buckets.size());
  const Status finished = await_results(deadline);
  const auto held = hold();
  if (pump_) pump_->stop();
  return finished;
}

bool Client::comes_in_parts() const {
  return !config_.plan.async && config_.plan.tables.empty() &&
         std::none_of(servers_.begin(), servers_.end(),
                      [](const auto& server) { return server->connection().is_shared(); });
}

bool Client::has_all() {
  const auto held = hold();
  return all_came();
}

bool Client::all_came() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const auto& server) { return server->has_all(); });
}

bool Client::all_sent() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const auto& server) {
    return server->waits_to_push() || server->connection().has_unsent();
  });
}

Status Client::await_part(const Bucket& part, Deadline deadline) {
  const auto came = [&] {
    const auto holders = first_holders();
    return std::all_of(holders.begin(), holders.end(),
                       [&](const auto& server) { return server->has_part(part); });
  };
  TANDEM_TRY(await(came, "give its results", deadline));
  const auto held = hold();
  if (pump_ && !all_came()) pump_->start();
  return {};
}

Status Client::await_results(Deadline deadline) {
  return await([&] { return all_came(); }, "give its results", deadline);
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
  if (moved && passes_on_) {
    for (auto& server : servers_) TANDEM_TRY(server->pass_on());
  }
  if (moved) {
    for (auto& server : servers_) {
      if (server->waits_to_push()) TANDEM_TRY(server->push_ready());
    }
  }
  return moved;
}

Status Client::await(const std::function<bool()>& done, const std::string& what,
                     Deadline deadline) {
  const auto held = hold();
  if (pump_) TANDEM_TRY(pump_->status());
  return kept(await_held(done, what, deadline));
}

Status Client::await_held(const std::function<bool()>& done, const std::string& what,
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
                      what, std::chrono::duration<double>(now - began).count(),
                      config_.servers.size()));
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
  }
  add_awaited(entries);
  if (may_sleep) ::poll(entries.data(), entries.size(), static_cast<int>(at_most.count()));
  for (auto& server : servers_) server->connection().wake();
}

void Client::add_awaited(std::vector<pollfd>& entries) {
  for (auto& server : servers_) {
    const short events = server->connection().has_unsent() ? POLLIN | POLLOUT : POLLIN;
    entries.push_back({server->connection().fd(), events, 0});
  }
}

Status Client::kept(Status status) {
  if (!status.ok() && pump_) pump_->stop();
  return status;
}

std::unique_lock<std::mutex> Client::hold() {
  return pump_ ? pump_->hold() : std::unique_lock<std::mutex>();
}

bool Client::shares_memory() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const auto& server) { return server->connection().is_shared(); });
}

collective::Traffic Client::traffic() {
  const auto held = hold();
  collective::Traffic traffic;
  for (const auto& server : servers_) {
    traffic.sent += server->connection().sent_bytes();
    traffic.received += server->connection().received_bytes();
  }
  return traffic;
}

}  // namespace tandem::ps
