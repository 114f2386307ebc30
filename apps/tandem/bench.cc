#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/text.h"
#include "bench_process.h"
#include "cluster/environment.h"
#include "cluster/meeting.h"
#include "commands.h"
#include "counted.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// The ranks of one engine: children that meet as a run's workers do, or one mpirun.
Result<std::vector<cluster::Command>> commands_for(const BenchAllReduceOptions& options,
                                                   const std::string& engine,
                                                   const std::string& order,
                                                   const cluster::Meeting* meeting,
                                                   const Surroundings& around) {
  cluster::Command command;
  TANDEM_ASSIGN(command.program, around.find_worker(options.worker_binary));
  command.arguments = {"allreduce", "--bytes", joined(options.bytes), "--order", order};
  command.environment =
      cluster::worker_environment(around.environment, best_kernels(detect_cpu()), 1);
  std::vector<cluster::Command> commands;
  if (engine == "mpi") {
    std::vector<std::string> words = {
        "mpirun", "--allow-run-as-root",         "--oversubscribe",
        "-n",     std::to_string(options.ranks), command.program.string()};
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    words.insert(words.end(), {"--engine", "mpi", "--workers", std::to_string(options.ranks)});
    command.program = "/usr/bin/env";
    command.arguments = std::move(words);
    return std::vector<cluster::Command>{command};
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    commands.push_back(command);
    meeting->introduce(rank, commands.back());
  }
  return commands;
}

Result<std::vector<Json>> measure(const BenchAllReduceOptions& options, const std::string& engine,
                                  const std::string& order, cluster::SignalQueue& signals,
                                  const Surroundings& around) {
  job::Job shape;
  shape.cluster.workers = options.ranks;
  shape.cluster.engine = engine == "mpi" ? "shm" : engine;
  TANDEM_ASSIGN(const cluster::Meeting meeting, cluster::Meeting::create(shape, std::nullopt));
  TANDEM_ASSIGN(const std::vector<cluster::Command> commands,
                commands_for(options, engine, order, &meeting, around));
  TANDEM_ASSIGN(std::vector<Json> rows,
                run_bench(commands, fmt::format("a rank of engine `{}`", engine),
                          std::chrono::minutes(10), signals));
  if (rows.size() != options.bytes.size()) {
    return Error(Code::kInternal,
                 fmt::format("the ranks of engine `{}` gave {} results for {} sizes; is this the "
                             "tandem-worker of this tandem?",
                             engine, rows.size(), options.bytes.size()));
  }
  return rows;
}

void show(const std::vector<Json>& rows) {
  std::string text = fmt::format("{:6} {:8} {:>5} {:>12} {:>14} {:>10}\n", "engine", "order",
                                 "ranks", "bytes", "microseconds", "bus GB/s");
  for (const Json& row : rows) {
    text += fmt::format("{:6} {:8} {:>5} {:>12} {:>14.2f} {:>10.3f}\n", row.value("engine", ""),
                        row.value("order", ""), row.value("ranks", 0),
                        row.value("bytes", std::int64_t{0}), row.value("microseconds", 0.0),
                        row.value("bus_gb_s", 0.0));
  }
  print_out(text);
}

// A kernel that promises more memory than there is would kill a process, perhaps another one.
Status check_room(const BenchAllReduceOptions& options) {
  constexpr double kEach = 2;  // What a rank has, and what it receives.
  const auto available = available_memory();
  const auto most = static_cast<double>(*std::ranges::max_element(options.bytes));
  const double needed = kEach * static_cast<double>(options.ranks) * most;
  if (!available || needed <= static_cast<double>(*available)) return {};
  return Error(
      Code::kOutOfSpace,
      fmt::format("{} with {} each need about {} of memory, and {} are free; give less "
                  "with --bytes or --ranks",
                  counted(options.ranks, "rank"), human_bytes(static_cast<std::uint64_t>(most)),
                  human_bytes(static_cast<std::uint64_t>(needed)), human_bytes(*available)));
}

Status run(const BenchAllReduceOptions& options, const Surroundings& around) {
  TANDEM_TRY(check_room(options));
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  std::vector<Json> all;
  for (const std::string& engine : options.engines) {
    for (const std::string& order : options.orders) {
      TANDEM_ASSIGN(const std::vector<Json> rows, measure(options, engine, order, signals, around));
      all.insert(all.end(), rows.begin(), rows.end());
    }
  }
  if (options.format == Format::kJson) {
    print_out(Json(all).dump(2) + "\n");
  } else {
    show(all);
  }
  return {};
}

}  // namespace

int bench_allreduce(const BenchAllReduceOptions& options, const Surroundings& around) {
  const Status status = run(options, around);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
