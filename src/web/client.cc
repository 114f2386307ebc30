#include "web/client.h"

#include <fmt/format.h>

// Debian compiles the library with it, and it changes the layout of its types.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <charconv>
#include <memory>
#include <thread>

#include "web/inputs.h"
#include "web/reply.h"

namespace tandem::web {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;
constexpr int kMostPort = 65535;

std::string name_of(const Endpoint& master) {
  return master.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", master.host, master.port)
             : fmt::format("[{}]:{}", master.host, master.port);
}

// What becomes of a call while it runs, besides the library's own errors.
enum class Broken : std::uint8_t { kNo, kDeadline, kTooLarge };

struct Answer {
  int status = 0;
  std::string body;
};

Error transport_error(const Endpoint& master, httplib::Error error, Broken broken,
                      bool was_silent) {
  const std::string name = name_of(master);
  if (broken == Broken::kTooLarge)
    return Error(Code::kCorrupt, fmt::format("the answer of {} is larger than 64 MiB", name));
  if (broken == Broken::kDeadline || was_silent || error == httplib::Error::ConnectionTimeout) {
    return Error(Code::kTimeout,
                 fmt::format("the master at {} does not answer; is it busy, or stopped?", name));
  }
  if (error == httplib::Error::Connection) {
    return Error(Code::kPeerLost,
                 fmt::format("no master at {}; start one with `tandem master`, or name it with "
                             "--master HOST:PORT or TANDEM_MASTER",
                             name));
  }
  return Error(Code::kPeerLost, fmt::format("the master at {} closed the connection ({})", name,
                                            httplib::to_string(error)));
}

Error answer_error(const Endpoint& master, const Answer& answer) {
  const json value = json::parse(answer.body, nullptr, false);
  const json error = value.is_object() ? value.value("error", json::object()) : json();
  const auto text = [&](const char* key) {
    const bool found = error.is_object() && error.contains(key) && error.at(key).is_string();
    return found ? error.at(key).get<std::string>() : std::string();
  };
  std::string message = text("message");
  if (message.empty()) {
    return Error(code_of("", answer.status),
                 fmt::format("{} answers with status {} and no reason; is it a Tandem master?",
                             name_of(master), answer.status));
  }
  if (const std::string hint = text("hint"); !hint.empty()) message += "; " + hint;
  return Error(code_of(text("code"), answer.status), message);
}

httplib::Headers headers_of(const ClientConfig& config) {
  httplib::Headers headers;
  if (!config.token.empty()) headers.emplace("Authorization", "Bearer " + config.token);
  return headers;
}

std::unique_ptr<httplib::Client> connect(const ClientConfig& config,
                                         std::chrono::milliseconds silence) {
  auto client = std::make_unique<httplib::Client>(config.master.host, config.master.port);
  client->set_connection_timeout(config.timeout);
  client->set_read_timeout(silence);
  client->set_write_timeout(config.timeout);
  client->set_tcp_nodelay(true);
  return client;
}

Result<json> to_json(const ClientConfig& config, const Answer& answer) {
  if (answer.status < 200 || answer.status >= 300) return answer_error(config.master, answer);
  json value = json::parse(answer.body, nullptr, false);
  if (value.is_discarded()) {
    return Error(Code::kCorrupt, fmt::format("the answer of {} is not JSON; is it a Tandem master?",
                                             name_of(config.master)));
  }
  return value;
}

// Sends the request and reads the whole answer before the deadline.
Result<Answer> exchange(const ClientConfig& config, httplib::Request request) {
  const Clock::time_point start = Clock::now();
  Answer answer;
  Broken broken = Broken::kNo;
  request.headers = headers_of(config);
  if (request.method == "POST") request.headers.emplace("Content-Type", "application/json");
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    if (Clock::now() - start > config.timeout) broken = Broken::kDeadline;
    if (answer.body.size() + size > kMostAnswerBytes) broken = Broken::kTooLarge;
    if (broken == Broken::kNo) answer.body.append(data, size);
    return broken == Broken::kNo;
  };
  const auto client = connect(config, config.timeout);
  const httplib::Result result = client->send(request);
  if (!result) {
    const bool was_silent = Clock::now() - start >= config.timeout;
    return transport_error(config.master, result.error(), broken, was_silent);
  }
  answer.status = result->status;
  return answer;
}

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
                 fmt::format("`{}` is no id of a job; `tandem status` lists them", id));
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

Result<json> Client::get(const std::string& path) const {
  httplib::Request request;
  request.method = "GET";
  request.path = path;
  TANDEM_ASSIGN(const Answer answer, exchange(config_, std::move(request)));
  return to_json(config_, answer);
}

Result<json> Client::post(const std::string& path, const json& body) const {
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  TANDEM_ASSIGN(const Answer answer, exchange(config_, std::move(request)));
  return to_json(config_, answer);
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

Result<json> Client::resize(const std::string& id, std::int64_t workers) const {
  TANDEM_ASSIGN(const std::string path, path_of(id, "/resize"));
  return post(path, {{"workers", workers}});
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

Status Client::stream_events(std::optional<std::uint64_t> after,
                             const std::function<Interest(const StreamEvent&)>& take) const {
  httplib::Headers headers = headers_of(config_);
  if (after) headers.emplace("Last-Event-ID", std::to_string(*after));
  Answer refusal;
  EventParser parser;
  Interest interest = Interest::kMore;
  Clock::time_point heard = Clock::now();
  const auto on_head = [&](const httplib::Response& response) {
    refusal.status = response.status;
    return true;
  };
  const auto on_body = [&](const char* data, std::size_t size) {
    heard = Clock::now();
    if (refusal.status != 200) {
      refusal.body.append(data, size);
      return refusal.body.size() < kMostAnswerBytes;
    }
    for (const StreamEvent& event : parser.feed({data, size})) {
      if (take(event) == Interest::kEnough) {
        interest = Interest::kEnough;
        return false;
      }
    }
    return true;
  };
  const auto client = connect(config_, config_.event_silence);
  const httplib::Result result = client->Get("/events", headers, on_head, on_body);
  if (interest == Interest::kEnough) return {};
  if (result && refusal.status != 200) return answer_error(config_.master, refusal);
  const bool was_silent = Clock::now() - heard >= config_.event_silence;
  const httplib::Error error = result ? httplib::Error::Read : result.error();
  return transport_error(config_.master, error, Broken::kNo, was_silent);
}

}  // namespace tandem::web
