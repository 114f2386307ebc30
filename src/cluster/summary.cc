#include "cluster/summary.h"

#include <ctime>

#include "base/hash.h"

namespace tandem::cluster {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, length);
}

// The path from inside the run directory, so that the directory can be moved; any other path as it
// is.
std::string inside(const RunDirectory& directory, const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path relative = std::filesystem::proximate(path, directory.path(), error);
  return error || relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

// Of wire::Finished or wire::Evaluated.
template <typename Message>
Evaluation evaluation_of(const Message& message) {
  Evaluation evaluation{message.loss(), std::nullopt};
  if (message.has_accuracy()) evaluation.accuracy = message.accuracy();
  if (message.has_rmse()) evaluation.rmse = message.rmse();
  return evaluation;
}

}  // namespace

Report blank_report(const RunRequest& request) {
  Report report;
  const job::Job& job = request.parsed.job;
  report.name = job.name;
  report.strategy = job.cluster.strategy;
  report.lanes = job.lanes();
  report.exact = !job.is_async();
  if (job.has_servers()) {
    report.servers = {job.cluster.servers, job.cluster.servers};
    report.replicas = job.cluster.replicas;
  }
  report.job_hash = hash_hex(std::as_bytes(std::span(request.job_text)));
  report.base_directory = request.base_directory;
  report.kernels = request.kernels;
  report.threads = job.train.threads;
  report.started_at = utc_now();
  report.version = request.version;
  return report;
}

void fail(Report& report, Error error) {
  report.status = RunStatus::kFailed;
  report.reason = error.message();
  report.error = std::move(error);
}

void add_work(Report& report, const Words& words, const std::optional<wire::Evaluated>& tested,
              const RunDirectory& directory) {
  if (const auto& finished = words.finished) {
    report.steps = finished->steps();
    report.epochs = finished->epochs();
    report.samples = finished->samples();
    report.train_s = finished->train_s();
    report.weights_hash = finished->weights_hash();
    report.model = inside(directory, finished->model_path());
    report.dropped_samples = finished->dropped_samples();
    if (finished->inexact()) report.exact = false;
    report.staleness.assign(finished->staleness().begin(), finished->staleness().end());
    report.missed_updates.assign(finished->missed_updates().begin(),
                                 finished->missed_updates().end());
    for (const wire::TableSize& table : finished->tables()) {
      report.tables.push_back(
          {table.name(), table.rows(), table.candidates(), table.evicted(), table.bytes()});
    }
    if (finished->has_eval()) {
      report.evaluation = evaluation_of(*finished);
    }
    return;
  }
  if (const auto& progress = words.progress) {
    report.steps = progress->step();
    report.epochs = progress->epoch();
    report.samples = progress->samples();
    report.train_s = progress->train_s();
  }
  if (tested) {
    report.evaluation = evaluation_of(*tested);
  }
}

void add_traffic(Report& report, std::span<const Words> all) {
  for (const Words& words : all) {
    if (!words.finished.has_value()) continue;
    report.sent.gradients += words.finished->bytes_sent();
    report.received.gradients += words.finished->bytes_received();
    report.engine = words.finished->engine();
  }
}

}  // namespace tandem::cluster
