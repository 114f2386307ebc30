#include "web/client.h"

#include <fmt/format.h>

#include <charconv>
#include <thread>

#include "web/inputs.h"

namespace tandem::web {
namespace {

using nlohmann::json;

constexpr int kMostPort = 65535;

Result<LogPart> to_part(Result<json> value) {
  if (!value.ok()) return std::move(value).error();
  try {
    return LogPart{.text = value->at("text").get<std::string>(),
                   .next_offset = value->at("next_offset").get<std::uint64_t>(),
                   .ended = value->at("ended").get<bool>()};
  } catch (const json::exception& error) {
    return Error(Code::kCorrupt,
                 fmt::format("the master's answer is no part of a log: {}", error.what()));
  }
}

// The path of a job, or kInvalidArgument for what cannot be one.
Result<std::string> path_of(const std::string& id, std::string_view rest = "") {
  if (!is_job_id(id)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("`{}` is no id of a job; `tandem jobs` lists them", id));
  }
  return fmt::format("/api/v1/jobs/{}{}", id, rest);
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const Error wrong(Code::kInvalidArgument,
                    fmt::format("`{}` is no address of a master; write HOST:PORT", text));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.find_first_of(bracketed ? "[]/@ " : "[]:/@ ") != std::string_view::npos) return wrong;
  Endpoint endpoint{.host = std::string(host)};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + colon + 1, last, endpoint.port);
  if (error != std::errc() || end != last || endpoint.port < 1 || endpoint.port > kMostPort)
    return wrong;
  return endpoint;
}

Result<json> Client::jobs() const {
  return get("/api/v1/jobs");
}

Result<json> Client::job(const std::string& id) const {
  TANDEM_ASSIGN(const std::string path, path_of(id));
  return get(path);
}

Result<json> Client::nodes() const {
  return get("/api/v1/nodes");
}

Result<json> Client::submit(const Submission& submission) const {
  return post("/api/v1/jobs", {{"job", submission.job_toml},
                               {"overrides", submission.overrides},
                               {"priority", submission.priority},
                               {"base_directory", submission.base_directory}});
}

Result<json> Client::cancel(const std::string& id) const {
  TANDEM_ASSIGN(const std::string path, path_of(id, "/cancel"));
  return post(path, json::object());
}

Result<json> Client::resume(const std::string& id, std::optional<std::int64_t> step) const {
  TANDEM_ASSIGN(const std::string path, path_of(id, "/resume"));
  return post(path, step ? json{{"step", *step}} : json::object());
}

Result<json> Client::resize(const std::string& id, const Resizing& wanted) const {
  TANDEM_ASSIGN(const std::string path, path_of(id, "/resize"));
  json body = json::object();
  if (wanted.workers) body["workers"] = *wanted.workers;
  if (wanted.servers) body["servers"] = *wanted.servers;
  return post(path, body);
}

Result<json> Client::report(const std::string& id) const {
  TANDEM_ASSIGN(const std::string path, path_of(id, "/report"));
  return get(path);
}

Result<LogPart> Client::logs(const LogQuery& query) const {
  TANDEM_ASSIGN(const std::string path, path_of(query.job, "/logs"));
  return to_part(get(fmt::format("{}?worker={}&offset={}", path, query.worker, query.offset)));
}

Result<LogPart> Client::metrics_lines(const std::string& id, std::uint64_t offset) const {
  TANDEM_ASSIGN(const std::string path, path_of(id, "/metrics"));
  return to_part(get(fmt::format("{}?offset={}", path, offset)));
}

Status Client::follow_logs(LogQuery query,
                           const std::function<Interest(std::string_view)>& show) const {
  for (;;) {
    TANDEM_ASSIGN(const LogPart part, logs(query));
    if (show(part.text) == Interest::kEnough || part.ended) return {};
    query.offset = part.next_offset;
    if (part.text.empty()) std::this_thread::sleep_for(config_.poll_interval);
  }
}

}  // namespace tandem::web
