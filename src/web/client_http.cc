// The part of Client that speaks HTTP.
#include <fmt/format.h>
#include <pthread.h>

#include <csignal>

// Debian compiles the library with it, and it changes the layout of its types.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <memory>

#include "web/client.h"
#include "web/reply.h"
#include "web/request.h"

namespace tandem::web {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20;

// Keeps SIGPIPE from this thread: the library writes without MSG_NOSIGNAL, and a command must live
// to say that the master went away. Others keep the signal, as for a pipe into `head`.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

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

Error transport_error(const Endpoint& master, httplib::Error error, Broken broken) {
  const std::string name = name_of(master);
  if (broken == Broken::kTooLarge)
    return Error(Code::kCorrupt, fmt::format("the answer of {} is larger than 64 MiB", name));
  if (broken == Broken::kDeadline || error == httplib::Error::ConnectionTimeout) {
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
  std::string hint = text("hint");
  // Whoever reads this has typed a command, not a request.
  if (hint.find("GET /") != std::string::npos) hint.clear();
  if (answer.status == 401) {
    hint =
        "copy the secret file of the cluster to ~/.config/tandem/secret on this machine, or name "
        "it with --secret FILE";
  }
  if (!hint.empty()) message += "; " + hint;
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
  const WithoutSigpipe guard;
  const auto client = connect(config, config.timeout);
  const httplib::Result result = client->send(request);
  if (!result) {
    if (broken == Broken::kNo && Clock::now() - start >= config.timeout) broken = Broken::kDeadline;
    return transport_error(config.master, result.error(), broken);
  }
  answer.status = result->status;
  return answer;
}

}  // namespace

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
  if (request.body.size() > kMostBodyBytes) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the request takes {} bytes; a master takes at most 1 MiB",
                             request.body.size()));
  }
  TANDEM_ASSIGN(const Answer answer, exchange(config_, std::move(request)));
  return to_json(config_, answer);
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
  const WithoutSigpipe guard;
  const auto client = connect(config_, config_.event_silence);
  const httplib::Result result = client->Get("/events", headers, on_head, on_body);
  if (interest == Interest::kEnough) return {};
  if (result && refusal.status != 200) return answer_error(config_.master, refusal);
  const bool was_silent = Clock::now() - heard >= config_.event_silence;
  const httplib::Error error = result ? httplib::Error::Read : result.error();
  return transport_error(config_.master, error, was_silent ? Broken::kDeadline : Broken::kNo);
}

}  // namespace tandem::web
