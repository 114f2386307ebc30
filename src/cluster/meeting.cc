#include "cluster/meeting.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

namespace tandem::cluster {

Result<std::string> random_token() {
  std::array<std::uint64_t, 2> words{};
  if (::getrandom(words.data(), sizeof words, 0) != static_cast<ssize_t>(sizeof words))
    return system_error("make a random token", errno);
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

Status Meeting::check(const job::Job& job, const std::optional<collective::JoinOptions>& place) {
  const job::Cluster& cluster = job.cluster;
  if (place.has_value() && job.has_servers()) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("parameter servers are started by `tandem train` itself or by the nodes of a "
                    "cluster, not under `mpirun`, `srun`, RANK or --hosts; leave these, or use {}",
                    job.has_sparse_tables()
                        ? "cluster.strategy=allreduce with ps.tables=dense, where each worker has "
                          "the whole tables in its memory"
                    : job.is_async() ? "cluster.strategy=allreduce, where workers go in step"
                                     : "cluster.strategy=allreduce, which gives the same bits"));
  }
  if (place.has_value() || cluster.engine != "mpi" || cluster.workers == 1) return {};
  return Error(Code::kInvalidArgument,
               fmt::format("engine `mpi` works only under `mpirun` or `srun`; try\n"
                           "    mpirun -n {} tandem train ...",
                           cluster.workers));
}

Result<Meeting> Meeting::create(const job::Job& job,
                                const std::optional<collective::JoinOptions>& place) {
  TANDEM_TRY(check(job, place));
  const job::Cluster& cluster = job.cluster;
  Meeting meeting;
  if (place.has_value()) {
    meeting.join_ = *place;
    return meeting;
  }
  meeting.local_ = static_cast<int>(cluster.workers);
  meeting.join_.size = meeting.local_;
  meeting.join_.engine = cluster.engine;
  if (cluster.workers == 1) return meeting;
  if (cluster.engine == "gloo") {
    TANDEM_ASSIGN(meeting.join_.token, random_token());
    TANDEM_ASSIGN(meeting.store_,
                  collective::StoreServer::start("127.0.0.1", 0, meeting.join_.token));
    meeting.join_.port = meeting.store_->port();
    meeting.join_.served = true;
    return meeting;
  }
  TANDEM_ASSIGN(collective::Arena arena, collective::Arena::create());
  meeting.arena_ = std::make_unique<collective::Arena>(std::move(arena));
  return meeting;
}

void Meeting::introduce(int number, Command& command) const {
  if (join_.size == 1) return;
  const auto add = [&](const char* option, const std::string& value) {
    command.arguments.emplace_back(option);
    command.arguments.push_back(value);
  };
  add("--rank", std::to_string(join_.rank + number));
  add("--workers", std::to_string(join_.size));
  add("--engine", join_.engine);
  if (arena_ != nullptr) {
    add("--arena", std::to_string(kInheritedDescriptor));
    command.inherited = arena_->fd();
    return;
  }
  add("--store-host", join_.address);
  add("--store-port", std::to_string(join_.port));
  if (join_.served) command.arguments.emplace_back("--store-served");
  // Not an argument, which every user of the machine could read.
  command.environment.push_back("TANDEM_TOKEN=" + join_.token);
}

}  // namespace tandem::cluster
