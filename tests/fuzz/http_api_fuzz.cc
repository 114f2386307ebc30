// clang-format off
// Sources: src/web/access.cc src/web/api.cc src/web/head.cc src/web/inputs.cc src/web/reply.cc src/web/routes.cc src/base/check.cc src/base/result.cc src/base/text.cc
// Links: -lfmt
// clang-format on
//
// Whatever a client sends, the API answers with a reply of the right form, calls the Backend only
// with values that it promised to check, and never for someone without the token who is not on this
// machine. The input is a request as on the wire; one that starts with '@' comes from elsewhere.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "web/api.h"
#include "web/ascii.h"
#include "web/head.h"
#include "web/openapi.h"

namespace tandem::web {

// The real one is embedded by the build.
std::string_view openapi_yaml() {
  return "openapi: 3.0.3\n";
}

namespace {

using nlohmann::json;

class CheckingBackend : public Backend {
 public:
  Result<json> jobs() override { return answer(); }
  Result<json> job(const std::string& id) override { return about(id); }
  Result<json> nodes() override { return answer(); }
  Result<json> submit(const Submission& submission) override {
    TANDEM_CHECK(!submission.job_toml.empty());
    TANDEM_CHECK(submission.base_directory.empty() || submission.base_directory.front() == '/');
    TANDEM_CHECK(submission.priority >= -1000 && submission.priority <= 1000);
    return answer();
  }
  Result<json> cancel(const std::string& id) override { return about(id); }
  Result<json> resume(const std::string& id, std::optional<std::int64_t> step) override {
    TANDEM_CHECK(!step || *step >= 0);
    return about(id);
  }
  Result<json> resize(const std::string& id, const Resizing& wanted) override {
    TANDEM_CHECK(wanted.workers || wanted.servers);
    TANDEM_CHECK(wanted.workers.value_or(1) >= 1 && wanted.servers.value_or(1) >= 1);
    return about(id);
  }
  Result<json> report(const std::string& id) override { return about(id); }
  Result<LogPart> logs(const LogQuery& query) override {
    TANDEM_CHECK(is_job_id(query.job) && query.worker >= 0);
    called = true;
    // Any bytes, cut anywhere.
    return LogPart{.text = log, .next_offset = log.size()};
  }
  Result<LogPart> metrics_lines(const std::string& id, std::uint64_t offset) override {
    TANDEM_CHECK(is_job_id(id));
    called = true;
    return LogPart{.text = "{}\n", .next_offset = offset};
  }
  std::string prometheus() override {
    called = true;
    return "";
  }

  bool called = false;
  std::string log;

 private:
  Result<json> answer() {
    called = true;
    return json::object();
  }
  Result<json> about(const std::string& id) {
    TANDEM_CHECK(is_job_id(id) && id.find("..") != 0);
    return answer();
  }
};

// The lines of a checked head, as the HTTP library would read them.
Request read_head(std::string_view text) {
  Request request;
  const std::string_view line = text.substr(0, text.find("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  request.method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, last - first - 1);
  request.path = target.substr(0, target.find('?'));
  target.remove_prefix(std::min(request.path.size() + 1, target.size()));
  while (!target.empty()) {
    const std::string_view pair = target.substr(0, target.find('&'));
    const std::size_t equals = pair.find('=');
    request.query.emplace(pair.substr(0, equals), equals == std::string_view::npos
                                                      ? std::string_view()
                                                      : pair.substr(equals + 1));
    target.remove_prefix(std::min(pair.size() + 1, target.size()));
  }
  text.remove_prefix(line.size() + 2);
  while (text != "\r\n") {
    const std::string_view header = text.substr(0, text.find("\r\n"));
    const std::size_t colon = header.find(": ");
    TANDEM_CHECK(colon != std::string_view::npos);
    request.headers.emplace(ascii_lower(header.substr(0, colon)), header.substr(colon + 2));
    text.remove_prefix(header.size() + 2);
  }
  return request;
}

void check_form(const Reply& reply) {
  TANDEM_CHECK(reply.status >= 200 && reply.status < 600);
  if (reply.status < 400) return;
  const json body = json::parse(reply.body);
  TANDEM_CHECK(!body.at("error").at("code").get<std::string>().empty());
  TANDEM_CHECK(!body.at("error").at("message").get<std::string>().empty());
}

void run(std::string_view input) {
  const Peer peer = input.starts_with('@') ? Peer::kRemote : Peer::kLoopback;
  if (peer == Peer::kRemote) input.remove_prefix(1);
  const std::size_t end = input.find("\r\n\r\n");
  if (end == std::string_view::npos) return;
  const std::variant<Head, Reply> checked = check_head(input.substr(0, end + 4));
  if (const Reply* refusal = std::get_if<Reply>(&checked)) return check_form(*refusal);
  Request request = read_head(std::get<Head>(checked).text);
  request.body = input.substr(end + 4);
  request.peer = peer;

  CheckingBackend backend;
  backend.log = request.body;
  const Api api(backend, {.token = "t", .host_names = {"trainer"}});
  check_form(api.handle(request));
  const auto authorization = request.headers.find("authorization");
  const bool proven =
      authorization != request.headers.end() && ascii_lower(authorization->second) == "bearer t";
  const bool read = request.method == "GET" || request.method == "HEAD";
  TANDEM_CHECK(proven || !backend.called || (read && peer == Peer::kLoopback));
}

}  // namespace
}  // namespace tandem::web

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::web::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
