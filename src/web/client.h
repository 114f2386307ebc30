// What the command line uses to talk to a master's HTTP API. Every call opens a connection of its
// own, so a Client is only its configuration and may be used from any thread. An error has the Code
// that the master gave; without a master it is kPeerLost, and says how to start or name one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "web/backend.h"
#include "web/event_parser.h"

namespace tandem::web {

struct Endpoint {
  std::string host;
  int port = 0;
};

// "HOST:PORT" or "[IPV6]:PORT".
Result<Endpoint> parse_endpoint(std::string_view text);

struct ClientConfig {
  Endpoint master;
  std::string token;
  std::chrono::milliseconds timeout{10000};        // For a whole answer.
  std::chrono::milliseconds poll_interval{500};    // Between two looks at a log that grows.
  std::chrono::milliseconds event_silence{40000};  // Of a stream that should send heartbeats.
};

enum class Interest : std::uint8_t { kMore, kEnough };

class Client {
 public:
  explicit Client(ClientConfig config) : config_(std::move(config)) {}

  // `path` with its query, as in docs/http-api.md.
  Result<nlohmann::json> get(const std::string& path) const;
  Result<nlohmann::json> post(const std::string& path, const nlohmann::json& body) const;

  Result<nlohmann::json> jobs() const;
  Result<nlohmann::json> job(const std::string& id) const;
  Result<nlohmann::json> nodes() const;
  Result<nlohmann::json> submit(const Submission& submission) const;
  Result<nlohmann::json> cancel(const std::string& id) const;
  Result<nlohmann::json> resume(const std::string& id, std::optional<std::int64_t> step) const;
  Result<nlohmann::json> resize(const std::string& id, const Resizing& wanted) const;
  Result<nlohmann::json> report(const std::string& id) const;
  Result<LogPart> logs(const LogQuery& query) const;
  Result<LogPart> metrics_lines(const std::string& id, std::uint64_t offset) const;

  // Shows a log from query.offset as it grows, until it ends or `show` has enough. `show` is also
  // called without text, once for each look, so that it can end the wait.
  Status follow_logs(LogQuery query, const std::function<Interest(std::string_view)>& show) const;

  // Calls `take` with each event behind `after`, or from now on, until it has enough. An error when
  // the stream ends before; events that were taken can then be skipped with `after`. Events and
  // heartbeats wake it, nothing else does.
  Status stream_events(std::optional<std::uint64_t> after,
                       const std::function<Interest(const StreamEvent&)>& take) const;

 private:
  const ClientConfig config_;
};

}  // namespace tandem::web
