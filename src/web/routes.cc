#include "web/routes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "web/openapi.h"

namespace tandem::web {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostWorker = 65535;
constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();

Result<Reply> answer(int status, Result<json> value) {
  if (!value.ok()) return std::move(value).error();
  return json_reply(status, *value);
}

// What a job's state does not allow: the request itself was understood.
Result<Reply> answer_change(Result<json> value) {
  if (value.ok() || value.error().code() != Code::kInvalidArgument)
    return answer(200, std::move(value));
  return error_reply({.status = 409,
                      .code = "conflict",
                      .message = value.error().message(),
                      .hint = "GET /api/v1/jobs tells the states of jobs"});
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
    part->text.erase(part->text.size() - cut);
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
  return answer_change(call.backend.cancel(call.id));
}

Result<Reply> resume_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  TANDEM_ASSIGN(const std::optional<std::int64_t> step, read_resume(call.request.body));
  return answer_change(call.backend.resume(call.id, step));
}

Result<Reply> resize_job(const Call& call) {
  TANDEM_TRY(no_query(call));
  TANDEM_ASSIGN(const Resizing wanted, read_resize(call.request.body));
  return answer_change(call.backend.resize(call.id, wanted));
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

constexpr std::array kRoutes = {
    Route{"GET", "/api/v1/jobs", get_jobs},
    Route{"POST", "/api/v1/jobs", post_job},
    Route{"GET", "/api/v1/jobs/{id}", get_job},
    Route{"GET", "/api/v1/jobs/{id}/report", get_report},
    Route{"GET", "/api/v1/jobs/{id}/logs", get_logs},
    Route{"GET", "/api/v1/jobs/{id}/metrics", get_job_metrics},
    Route{"POST", "/api/v1/jobs/{id}/cancel", cancel_job},
    Route{"POST", "/api/v1/jobs/{id}/resume", resume_job},
    Route{"POST", "/api/v1/jobs/{id}/resize", resize_job},
    Route{"GET", "/api/v1/nodes", get_nodes},
    Route{"GET", "/events", get_events},
    Route{"GET", "/metrics", get_metrics},
    Route{"GET", "/healthz", get_health},
    Route{"GET", "/openapi.yaml", get_openapi},
};

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

}  // namespace tandem::web
