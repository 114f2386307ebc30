#include "web/api.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <vector>

#include "base/text.h"
#include "web/routes.h"

namespace tandem::web {
namespace {

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
  for (const Route& route : routes()) {
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
  for (const Route& route : routes()) {
    std::optional<std::string> id = match(request.path, route.path);
    if (!id) continue;
    if (!id->empty() && !is_job_id(*id)) {
      return error_reply({.status = 400,
                          .code = to_string(Code::kInvalidArgument),
                          .message = fmt::format("`{}` is no id of a job", id->substr(0, 200)),
                          .hint = "GET /api/v1/jobs lists the jobs"});
    }
    if (route.method == method)
      return run(route.handler, Call{.request = request, .backend = backend, .id = *std::move(id)});
    allowed.push_back(route.method);
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
