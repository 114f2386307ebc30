#include "collective/join.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "collective/gloo_engine.h"
#include "collective/host.h"
#include "collective/mpi_engine.h"
#include "collective/shm_engine.h"
#include "collective/store.h"
#include "collective/two_level.h"

namespace tandem::collective {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

// What a rank leaves in the store.
struct Card {
  std::string host, identity, store;  // `store`: its address, as this rank reaches it.
  pid_t pid = 0;

  std::string text() const { return fmt::format("{}\n{}\n{}\n{}", host, identity, store, pid); }
  static Card parse(const std::string& text) {
    Card card;
    std::istringstream lines(text);
    std::getline(lines, card.host);
    std::getline(lines, card.identity);
    std::getline(lines, card.store);
    lines >> card.pid;
    return card;
  }
};

// Rank 0, whose end ends the store, gives up after the others, so that each says who is missing.
std::chrono::milliseconds extra(const JoinOptions& options) {
  constexpr std::chrono::milliseconds kMost{2000};
  return options.rank == 0 && !options.served ? std::min(options.patience / 4, kMost)
                                              : std::chrono::milliseconds(0);
}

// One rank on its way into a group.
class Joining {
 public:
  explicit Joining(const JoinOptions& options)
      : options_(options),
        deadline_(deadline_after(options.patience + extra(options))),
        prefix_(fmt::format("tandem/{}/", options.generation)) {}

  Result<Group> run() {
    constexpr std::array kEngines = {"auto", "shm", "gloo", "mpi"};
    if (std::find(kEngines.begin(), kEngines.end(), options_.engine) == kEngines.end()) {
      return Error(Code::kInvalidArgument,
                   fmt::format("there is no engine `{}`; there are auto, shm, gloo and mpi",
                               options_.engine));
    }
    if (options_.engine == "mpi") return join_mpi();
    if (options_.size == 1) return Group();
    if (options_.rank == 0 && !options_.served) {
      auto server = StoreServer::start("", options_.port, options_.token);
      if (!server.ok()) {
        return Error(Code::kInvalidArgument, fmt::format("{}; choose another port with MASTER_PORT",
                                                         server.error().message()));
      }
      server_ = std::move(server).value();
    }
    TANDEM_ASSIGN(store_, StoreClient::connect(options_.address, options_.port, options_.token,
                                               deadline_, options_.abandoned));
    TANDEM_TRY(introduce());
    if (options_.forming.count() > 0) deadline_ = deadline_after(options_.forming);
    const bool one_host = std::all_of(cards_.begin(), cards_.end(), [&](const Card& card) {
      return card.identity == cards_[0].identity;
    });
    if (options_.engine == "shm" && !one_host) {
      return Error(Code::kInvalidArgument,
                   "engine `shm` needs all workers on one host, in one network and process "
                   "namespace; use `auto` or `gloo`");
    }
    const bool shared = options_.engine == "shm" || (options_.engine == "auto" && one_host);
    if (shared) {
      TANDEM_ASSIGN(auto engine, open_shm(0, options_.size));
      return Group(std::move(engine), std::move(server_));
    }
    const std::vector<int> hosts = first_ranks();
    const bool two_levels = options_.engine == "auto" && !hosts.empty() &&
                            hosts.size() < static_cast<std::size_t>(options_.size);
    return two_levels ? join_two_levels(hosts) : join_gloo();
  }

 private:
  Status introduce() {
    TANDEM_ASSIGN(const std::string store, store_->remote_address());
    const Card mine{host_name(), host_identity(), store, ::getpid()};
    TANDEM_ASSIGN(const auto other,
                  store_->claim(key("rank", options_.rank), bytes_of(mine.text()), deadline_));
    if (other) {
      const Card card = Card::parse(text_of(*other));
      return Error(Code::kInvalidArgument,
                   fmt::format("rank {} is there already: process {} on {}; give every process "
                               "another RANK, and every run another MASTER_PORT",
                               options_.rank, card.pid, card.host));
    }
    membership_.rank = options_.rank;
    membership_.generation = options_.generation;
    membership_.members.clear();
    for (int rank = 0; rank < options_.size; ++rank) {
      auto card = await(key("rank", rank));
      if (!card.ok() && card.error().code() == Code::kTimeout) {
        return Error(Code::kTimeout,
                     fmt::format("rank {} of {} has not come within {:.1f} s; was it started, and "
                                 "can it reach {}:{}?",
                                 rank, options_.size,
                                 std::chrono::duration<double>(options_.patience).count(),
                                 options_.address, options_.port));
      }
      if (!card.ok())
        return std::move(card).error().within(fmt::format("while rank {} was awaited", rank));
      cards_.push_back(Card::parse(text_of(*card)));
      membership_.members.push_back({cards_.back().host, cards_.back().pid});
    }
    return everybody_has_read();
  }

  Result<std::vector<std::byte>> await(const std::string& name) {
    return store_->get(name, deadline_, options_.abandoned);
  }

  // What follows may fail at rank 0, and the store with it: not before all know as much as it does.
  Status everybody_has_read() {
    TANDEM_TRY(store_->set(key("read", options_.rank), {}, deadline_));
    for (int rank = 1; rank < options_.size && options_.rank == 0; ++rank)
      TANDEM_TRY(await(key("read", rank)));
    return {};
  }

  std::string key(std::string_view kind, int number) const {
    return fmt::format("{}{}/{}", prefix_, kind, number);
  }

  // The first rank of each host; nothing when a host's ranks are not contiguous.
  std::vector<int> first_ranks() const {
    std::vector<int> firsts;
    for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
      if (rank > 0 && cards_[rank].identity == cards_[rank - 1].identity) continue;
      for (const int first : firsts) {
        if (cards_[static_cast<std::size_t>(first)].identity == cards_[rank].identity) return {};
      }
      firsts.push_back(static_cast<int>(rank));
    }
    return firsts;
  }

  // Members [first, end) as a group of their own.
  Membership part(int first, int end) const {
    Membership membership = membership_;
    membership.rank = membership_.rank - first;
    for (int rank = first; rank < end; ++rank) membership.numbers.push_back(rank);
    membership.members.assign(membership_.members.begin() + first,
                              membership_.members.begin() + end);
    return membership;
  }

  // Shared memory of ranks [first, end). The first makes it; it stays open there until everybody
  // has it.
  Result<std::unique_ptr<ShmEngine>> open_shm(int first, int end) {
    std::shared_ptr<const Arena> arena;
    if (options_.rank == first) {
      TANDEM_ASSIGN(Arena made, Arena::create());
      arena = std::make_shared<const Arena>(std::move(made));
      TANDEM_TRY(store_->set(key("arena", first), bytes_of(arena->path()), deadline_));
    } else {
      TANDEM_ASSIGN(const std::vector<std::byte> path, await(key("arena", first)));
      auto opened = Arena::open(text_of(path));
      // It is gone with the process that made it.
      if (!opened.ok()) {
        return Error(Code::kPeerLost,
                     fmt::format("the memory of {} is gone: {}", membership_.name(first),
                                 opened.error().message()));
      }
      arena = std::make_shared<const Arena>(std::move(opened).value());
    }
    return make_shm_engine(std::move(arena), part(first, end), deadline_);
  }

  Result<std::unique_ptr<Engine>> open_gloo(const Membership& membership, std::string_view name) {
    return make_gloo_engine({.membership = membership,
                             .store = store_.get(),
                             .prefix = fmt::format("{}{}/", prefix_, name),
                             .bind_address = address_for_others(),
                             .deadline = deadline_,
                             .abandoned = options_.abandoned});
  }

  // Where this rank listens; "": at the address from which it reaches the store. On the store's own
  // host that may be one of the loopback, which nobody else reaches: names often mean that at home.
  // Then it is the address at which ranks of other hosts reach the store.
  std::string address_for_others() const {
    if (!is_loopback(cards_[static_cast<std::size_t>(options_.rank)].store)) return "";
    const auto other = std::find_if(cards_.begin(), cards_.end(),
                                    [](const Card& card) { return !is_loopback(card.store); });
    return other == cards_.end() ? "" : other->store;
  }

  Result<Group> join_gloo() {
    TANDEM_ASSIGN(auto engine, open_gloo(membership_, "gloo"));
    return Group(std::move(engine), std::move(server_));
  }

  Result<Group> join_two_levels(const std::vector<int>& firsts) {
    const auto next = std::upper_bound(firsts.begin(), firsts.end(), options_.rank);
    const int first = *(next - 1), end = next == firsts.end() ? options_.size : *next;
    TwoLevelParts parts;
    parts.first_ranks = firsts;
    TANDEM_ASSIGN(parts.all, open_gloo(membership_, "gloo"));
    TANDEM_ASSIGN(parts.local, open_shm(first, end));
    if (options_.rank == first) {
      Membership leaders = membership_;
      leaders.rank = static_cast<int>(next - firsts.begin()) - 1;
      leaders.members.clear();
      for (const int rank : firsts)
        leaders.members.push_back(membership_.members[static_cast<std::size_t>(rank)]);
      leaders.numbers = firsts;
      TANDEM_ASSIGN(parts.leaders, open_gloo(leaders, "leaders"));
    }
    return Group(make_two_level_engine(std::move(parts)), std::move(server_));
  }

  Result<Group> join_mpi() {
    TANDEM_ASSIGN(auto engine, make_mpi_engine({options_.generation, deadline_}));
    if (const int ranks = engine->membership().size(); ranks != options_.size) {
      return Error(
          Code::kInvalidArgument,
          fmt::format("engine `mpi` was asked for {} ranks, but MPI has {} here; start all "
                      "of them with one `mpirun -n {}`, or under an `srun` that knows "
                      "this MPI (srun --mpi=list)",
                      options_.size, ranks, options_.size));
    }
    return Group(std::move(engine));
  }

  const JoinOptions& options_;
  Deadline deadline_;
  const std::string prefix_;
  std::shared_ptr<StoreServer> server_;  // Of rank 0; lives as long as the group.
  std::unique_ptr<StoreClient> store_;
  std::vector<Card> cards_;
  Membership membership_;
};

}  // namespace

Result<Group> join(const JoinOptions& options) {
  return Joining(options).run();
}

}  // namespace tandem::collective
