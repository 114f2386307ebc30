#include "bench_ps.h"

#include <fmt/format.h>

#include "bench_process.h"
#include "cluster/signals.h"
#include "cluster/worker_command.h"
#include "commands.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename List, typename Text>
std::string joined(const List& list, Text text_of) {
  std::string text;
  for (const auto& each : list) text += (text.empty() ? "" : ",") + text_of(each);
  return text;
}

// In a process of its own, so that Ctrl-C need not wait, and nothing is left behind.
Result<std::vector<Json>> run_dense(const BenchPsOptions& options, const Surroundings& around) {
  TANDEM_TRY(check_dense_room(options));
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  cluster::Command command = {
      .program = "/proc/self/exe",
      .arguments = {"bench", "ps", "--role", "measure", "--bytes",
                    joined(options.bytes, [](std::int64_t size) { return std::to_string(size); }),
                    "--transport",
                    joined(options.transports, [](const std::string& name) { return name; }),
                    "--workers", std::to_string(options.workers), "--servers",
                    std::to_string(options.servers)},
      .environment = around.environment};
  const std::vector<std::string> tls = cluster::tls_arguments(options.tls);
  command.arguments.insert(command.arguments.end(), tls.begin(), tls.end());
  TANDEM_ASSIGN(std::vector<Json> rows,
                run_bench({&command, 1}, "the measurement", std::chrono::minutes(30), signals));
  if (rows.size() != options.bytes.size() * options.transports.size())
    return Error(Code::kInternal, "the measurement gave too few results");
  return rows;
}

Status run(const BenchPsOptions& options, const Surroundings& around) {
  Json json = Json::object();
  std::string text;
  if (options.dense) {
    TANDEM_ASSIGN(const std::vector<Json> rows, run_dense(options, around));
    json["dense"] = rows;
    text += dense_text(rows);
  }
  if (options.sparse) {
    TANDEM_ASSIGN(const Json result, measure_sparse(options));
    json.update(result);
    text += (text.empty() ? "" : "\n") + sparse_text(result);
  }
  print_out(options.format == Format::kJson ? json.dump(2) + "\n" : text);
  return {};
}

Status play(const BenchPsOptions& options, const Surroundings& around) {
  switch (options.role) {
    case BenchPsRole::kMeasures:
      return measure_dense(options, around);
    case BenchPsRole::kServes:
      return serve_bench(options, around);
    case BenchPsRole::kWorks:
      return work_for_bench(options, around);
    case BenchPsRole::kEchoes:
      return echo_for_bench(static_cast<std::size_t>(options.bytes.at(0)));
    case BenchPsRole::kAsked:
      break;
  }
  return run(options, around);
}

}  // namespace

int bench_ps(const BenchPsOptions& options, const Surroundings& around) {
  const Status status = play(options, around);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
