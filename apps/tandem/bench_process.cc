#include "bench_process.h"

#include <fmt/format.h>

#include "cluster/run_workers.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// Keeps the lines of JSON, and what goes wrong.
class Results : public cluster::WorkerListener {
 public:
  Status message(int, const wire::WorkerMessage&) override { return {}; }
  Status line(int, cluster::Stream stream, std::string_view text) override {
    Json json = Json::parse(text, nullptr, false);
    if (stream == cluster::Stream::kOutput && json.is_object()) {
      rows.push_back(std::move(json));
    } else if (stream == cluster::Stream::kErrors) {
      errors += std::string(text) + "\n";
    }
    return {};
  }
  void stopping(cluster::Order, cluster::Cause) override {}
  void resumed() override {}
  void tick() override {}

  std::vector<Json> rows;
  std::string errors;
};

}  // namespace

Result<std::vector<Json>> run_bench(std::span<const cluster::Command> commands,
                                    const std::string& who, std::chrono::seconds at_most,
                                    cluster::SignalQueue& signals) {
  Results results;
  // They do not report as workers do: the time to start is all the time they have.
  const cluster::Limits limits{.start = at_most};
  TANDEM_ASSIGN(const std::vector<cluster::WorkerEnd> ends,
                cluster::run_workers(commands, limits, signals, results));
  for (const cluster::WorkerEnd& end : ends) {
    if (end.cause == cluster::Cause::kCancelled) return Error(Code::kCancelled, "interrupted");
    if (end.cause == cluster::Cause::kStartTimeout) {
      return Error(Code::kTimeout, fmt::format("{} took longer than {} s; give it less to do", who,
                                               at_most.count()));
    }
    if (end.exit != cluster::Exit{}) {
      return Error(Code::kPeerLost,
                   fmt::format("{} failed:\n{}", who,
                               results.errors.empty() ? "it said nothing" : results.errors));
    }
  }
  return results.rows;
}

}  // namespace tandem::cli
