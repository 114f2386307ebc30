#include "cluster/report.h"

#include <nlohmann/json.hpp>

namespace tandem::cluster {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json to_json(const Count& count) {
  return {{"start", count.start}, {"end", count.end}};
}

Json to_json(const Traffic& traffic) {
  return {{"gradients", traffic.gradients},
          {"parameters", traffic.parameters},
          {"control", traffic.control}};
}

Json to_json(const std::optional<Evaluation>& evaluation) {
  if (!evaluation.has_value()) return {};
  Json json = {
      {"loss", evaluation->loss},
      {"accuracy", evaluation->accuracy.has_value() ? Json(*evaluation->accuracy) : Json()}};
  if (evaluation->rmse.has_value()) json["rmse"] = *evaluation->rmse;
  return json;
}

Json to_json(const std::optional<Error>& error) {
  if (!error.has_value()) return {};
  return {{"code", tandem::to_string(error->code())}, {"message", error->message()}};
}

Json to_json(const Event& event) {
  Json json = {
      {"t_s", event.t_s}, {"kind", event.kind}, {"who", event.who}, {"detail", event.detail}};
  if (event.recovered_ms.has_value()) json["recovered_ms"] = *event.recovered_ms;
  return json;
}

// Null where servers keep none by key.
Json to_json(const std::vector<TableSize>& tables) {
  if (tables.empty()) return nullptr;
  Json json = Json::array();
  for (const TableSize& table : tables) {
    json.push_back({{"name", table.name},
                    {"rows", table.rows},
                    {"candidates", table.candidates},
                    {"evicted", table.evicted},
                    {"bytes", table.bytes}});
  }
  return json;
}

// Null where workers wait for each other.
Json to_json(const std::vector<std::uint64_t>& staleness,
             const std::vector<std::uint64_t>& missed) {
  if (staleness.empty()) return nullptr;
  return {{"steps", staleness}, {"updates", missed}};
}

}  // namespace

std::string_view to_string(RunStatus status) {
  switch (status) {
    case RunStatus::kFinished:
      return "finished";
    case RunStatus::kConverged:
      return "converged";
    case RunStatus::kFailed:
      return "failed";
    case RunStatus::kCancelled:
      return "cancelled";
  }
  return "failed";
}

std::string to_json(const Report& report) {
  Json events = Json::array();
  for (const Event& event : report.events) events.push_back(to_json(event));
  const Json json = {
      {"name", report.name},
      {"status", to_string(report.status)},
      {"reason", report.reason},
      {"error", to_json(report.error)},
      {"steps", report.steps},
      {"epochs", report.epochs},
      {"samples", report.samples},
      {"dropped_samples", report.dropped_samples},
      {"wall_s", report.wall_s},
      {"train_s", report.train_s},
      {"samples_per_s", report.samples_per_s()},
      {"weights_hash", text_or_null(report.weights_hash)},
      {"exact", report.exact},
      {"eval", to_json(report.evaluation)},
      {"model", text_or_null(report.model)},
      {"cluster",
       {{"strategy", report.strategy},
        {"engine", report.engine},
        {"lanes", report.lanes},
        {"workers", to_json(report.workers)},
        {"servers", to_json(report.servers)},
        {"replicas", report.replicas}}},
      {"bytes", {{"sent", to_json(report.sent)}, {"received", to_json(report.received)}}},
      {"staleness", to_json(report.staleness, report.missed_updates)},
      {"tables", to_json(report.tables)},
      {"events", events},
      {"job_hash", report.job_hash},
      {"base_directory", report.base_directory.string()},
      {"kernels",
       {{"blas_core", report.kernels.blas_core},
        {"aten", report.kernels.aten},
        {"onednn", report.kernels.onednn}}},
      {"threads", report.threads},
      {"started_at", report.started_at},
      {"version", report.version},
  };
  // Paths and messages of the system need not be UTF-8; a report is written whatever they hold.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int exit_code(const Report& report) {
  if (report.error.has_value()) return tandem::exit_code(report.error->code());
  if (report.status == RunStatus::kCancelled) return tandem::exit_code(Code::kCancelled);
  return report.status == RunStatus::kFailed ? 1 : 0;
}

}  // namespace tandem::cluster
