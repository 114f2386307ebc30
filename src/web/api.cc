#include "web/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <optional>
#include <vector>

#include "base/text.h"
#include "web/openapi.h"

namespace tandem::web {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostWorker = 65535;
constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();

// What a handler gets: the request, and the job that its path names.
struct Call {
  const Request& request;
  Backend& backend;
  const std::string id;
};

Result<Reply> answer(int status, Result<json> value) {
  if (!value.ok()) return std::move(value).error();
  return json_reply(status, *value);
}

// How many bytes at the end of `text` begin a UTF-8 character that is cut off.
std::size_t cut_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

Result<Reply> answer(Result<LogPart> part) {
  if (!part.ok()) return std::move(part).error();
  // The rest of the character comes with the next part.
  const std::size_t cut = part->ended ? 0 : cut_bytes(part->text);
  if (cut < part->text.size() && cut <= part->next_offset) {
    part->text.resize(part->text.size() - cut);
    part->next_offset -= cut;
  }
  return json_reply(
      200, {{"text", part->text}, {"next_offset", part->next_offset}, {"ended", part->ended}});
}

Status no_query(const Call& call) {
  return check_query(call.request.query, {});
}

Result<Reply> get_jobs(const Call& call) {
  TANDEM_TRY(no_query(call));
  return answer(200, call.backend.jobs());
}

Result<Reply> post_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  TANDEM_ASSIGN(const Submission submission, read_submission(call.request.body));
  return answer(201, call.backend.submit(submission));
}

Result<Reply> get_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  return answer(200, call.backend.job(call.id));
}

Result<Reply> get_report(const Call& call) {
  TANDEM_TRY(no_query(call));
  return answer(200, call.backend.report(call.id));
}

Result<Reply> get_logs(const Call& call) {
  constexpr std::string_view kKnown[] = {"worker", "offset"};
  TANDEM_TRY(check_query(call.request.query, kKnown));
  TANDEM_ASSIGN(const std::uint64_t worker, number(call.request.query, "worker", 0, kMostWorker));
  TANDEM_ASSIGN(const std::uint64_t offset, number(call.request.query, "offset", 0, kAnyNumber));
  return answer(
      call.backend.logs({.job = call.id, .worker = static_cast<int>(worker), .offset = offset}));
}

Result<Reply> get_job_metrics(const Call& call) {
  constexpr std::string_view kKnown[] = {"offset"};
  TANDEM_TRY(check_query(call.request.query, kKnown));
  TANDEM_ASSIGN(const std::uint64_t offset, number(call.request.query, "offset", 0, kAnyNumber));
  return answer(call.backend.metrics_lines(call.id, offset));
}

Result<Reply> cancel_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  TANDEM_TRY(read_nothing(call.request.body));
  return answer(200, call.backend.cancel(call.id));
}

Result<Reply> resume_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  TANDEM_ASSIGN(const std::optional<std::int64_t> step, read_resume(call.request.body));
  return answer(200, call.backend.resume(call.id, step));
}

Result<Reply> resize_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  TANDEM_ASSIGN(const std::int64_t workers, read_resize(call.request.body));
  return answer(200, call.backend.resize(call.id, workers));
}

Result<Reply> get_nodes(const Call& call) {
  TANDEM_TRY(no_query(call));
  return answer(200, call.backend.nodes());
}

Result<Reply> get_events(const Call& call) {
  constexpr std::string_view kKnown[] = {"after"};
  TANDEM_TRY(check_query(call.request.query, kKnown));
  EventsAfter after;
  // The header wins: a browser sends it when it connects again, with the address as it was.
  if (const auto header = call.request.headers.find("last-event-id");
      header != call.request.headers.end()) {
    TANDEM_ASSIGN(after.id, number("Last-Event-ID", header->second, kAnyNumber));
  } else if (call.request.query.contains("after")) {
    TANDEM_ASSIGN(after.id, number(call.request.query, "after", 0, kAnyNumber));
  }
  return Reply{.content_type = "text/event-stream", .events = after};
}

Result<Reply> get_metrics(const Call& call) {
  TANDEM_TRY(no_query(call));
  return Reply{.content_type = "text/plain; version=0.0.4; charset=utf-8",
               .body = call.backend.prometheus()};
}

Result<Reply> get_health(const Call& call) {
  TANDEM_TRY(no_query(call));
  return json_reply(200, {{"status", "ok"}});
}

Result<Reply> get_openapi(const Call& call) {
  TANDEM_TRY(no_query(call));
  return Reply{.content_type = "application/yaml", .body = std::string(openapi_yaml())};
}

using Handler = Result<Reply> (*)(const Call&);

constexpr std::array kRoutes = {
    RouteName{"GET", "/api/v1/jobs"},
    RouteName{"POST", "/api/v1/jobs"},
    RouteName{"GET", "/api/v1/jobs/{id}"},
    RouteName{"GET", "/api/v1/jobs/{id}/report"},
    RouteName{"GET", "/api/v1/jobs/{id}/logs"},
    RouteName{"GET", "/api/v1/jobs/{id}/metrics"},
    RouteName{"POST", "/api/v1/jobs/{id}/cancel"},
    RouteName{"POST", "/api/v1/jobs/{id}/resume"},
    RouteName{"POST", "/api/v1/jobs/{id}/resize"},
    RouteName{"GET", "/api/v1/nodes"},
    RouteName{"GET", "/events"},
    RouteName{"GET", "/metrics"},
    RouteName{"GET", "/healthz"},
    RouteName{"GET", "/openapi.yaml"},
};

// In the order of kRoutes.
constexpr std::array<Handler, kRoutes.size()> kHandlers = {
    get_jobs,   post_job,   get_job,   get_report, get_logs,    get_job_metrics, cancel_job,
    resume_job, resize_job, get_nodes, get_events, get_metrics, get_health,      get_openapi,
};

// The id that `path` has where `pattern` has {id}, "" when the pattern has none; nothing when they
// do not match.
std::optional<std::string> match(std::string_view path, std::string_view pattern) {
  constexpr std::string_view kId = "{id}";
  const std::size_t at = pattern.find(kId);
  if (at == std::string_view::npos)
    return path == pattern ? std::optional<std::string>("") : std::nullopt;
  const std::string_view front = pattern.substr(0, at);
  const std::string_view back = pattern.substr(at + kId.size());
  if (path.size() <= front.size() + back.size()) return std::nullopt;
  if (!path.starts_with(front) || !path.ends_with(back)) return std::nullopt;
  const std::string_view id = path.substr(front.size(), path.size() - front.size() - back.size());
  if (id.find('/') != std::string_view::npos) return std::nullopt;
  return std::string(id);
}

Reply no_such_route(std::string_view path) {
  std::vector<std::string_view> paths;
  std::string list;
  const std::string_view folder = path.substr(0, path.find('/', 1));
  for (const RouteName& route : kRoutes) {
    paths.push_back(route.path);
    if (folder == "/api" && !route.path.starts_with(folder)) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", route.method, route.path);
  }
  const std::string_view near = nearest(path, paths);
  return error_reply(
      {.status = 404,
       .code = to_string(Code::kNotFound),
       .message = fmt::format("there is no {}", path.substr(0, 200)),
       .hint = fmt::format("{}routes: {}",
                           near.empty() ? "" : fmt::format("did you mean {}? ", near), list)});
}

Reply wrong_method(const Request& request, const std::vector<std::string_view>& allowed) {
  const std::string list = fmt::format("{}", fmt::join(allowed, ", "));
  Reply reply =
      error_reply({.status = 405,
                   .code = "method_not_allowed",
                   .message = fmt::format("{} does not take {}", request.path, request.method),
                   .hint = fmt::format("use {}", list)});
  reply.headers.emplace_back("Allow", list);
  return reply;
}

std::string header(const Request& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string() : found->second;
}

// A proxy on this machine makes every client look as if it were here.
Peer true_peer(const Request& request) {
  for (const char* name : {"forwarded", "x-forwarded-for", "via"})
    if (request.headers.contains(name)) return Peer::kRemote;
  return request.peer;
}

// A page in a browser can post forms and plain text to any address, but not JSON.
bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type.substr(0, type.find_last_not_of(" \t") + 1) == "application/json";
}

std::string hint_for(const Error& error, const Call& call) {
  if (error.code() == Code::kNotFound && !call.id.empty()) return "GET /api/v1/jobs lists the jobs";
  if (error.code() == Code::kInvalidArgument) return "GET /openapi.yaml describes every request";
  return "";
}

Reply run(Handler handler, const Call& call) {
  if (call.request.method == "POST" && !is_json(header(call.request, "content-type"))) {
    return error_reply({.status = 415,
                        .code = "unsupported_media_type",
                        .message = "the header Content-Type is not application/json",
                        .hint = "send JSON, with the header `Content-Type: application/json`"});
  }
  if (call.request.body.size() > kMostBodyBytes) {
    return error_reply({.status = 413,
                        .code = "body_too_large",
                        .message = "the body is larger than 1 MiB",
                        .hint = "name data by path instead of sending it"});
  }
  Result<Reply> reply = handler(call);
  return reply.ok() ? std::move(reply).value()
                    : error_reply(reply.error(), hint_for(reply.error(), call));
}

Reply dispatch(const Request& request, Backend& backend) {
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  std::vector<std::string_view> allowed;
  for (std::size_t i = 0; i < kRoutes.size(); ++i) {
    std::optional<std::string> id = match(request.path, kRoutes[i].path);
    if (!id) continue;
    if (!id->empty() && !is_job_id(*id)) {
      return error_reply({.status = 400,
                          .code = to_string(Code::kInvalidArgument),
                          .message = fmt::format("`{}` is no id of a job", id->substr(0, 200)),
                          .hint = "GET /api/v1/jobs lists the jobs"});
    }
    if (kRoutes[i].method == method)
      return run(kHandlers[i], Call{.request = request, .backend = backend, .id = *std::move(id)});
    allowed.push_back(kRoutes[i].method);
  }
  return allowed.empty() ? no_such_route(request.path) : wrong_method(request, allowed);
}

Reply failed(std::string_view what) {
  return error_reply({.status = 500,
                      .code = to_string(Code::kInternal),
                      .message = fmt::format("the master failed: {}", what),
                      .hint = "see the master's log"});
}

}  // namespace

std::span<const RouteName> routes() {
  return kRoutes;
}

Reply Api::handle(const Request& request) const {
  try {
    const std::string authorization = header(request, "authorization");
    const std::string host = header(request, "host");
    std::optional<Reply> refusal = refuse(rules_, {.method = request.method,
                                                   .authorization = authorization,
                                                   .host = host,
                                                   .peer = true_peer(request)});
    return refusal ? *std::move(refusal) : dispatch(request, backend_);
  } catch (const std::exception& exception) {
    return failed(exception.what());
  } catch (...) {
    return failed("unknown exception");
  }
}

}  // namespace tandem::web
