// The master's HTTP server: the API, the stream of events, Prometheus' metrics. docs/http-api.md
// says what people get from it. The master owns it; Backend and EventHub are borrowed and must
// outlive it. It has a thread that accepts and one for each connection.
//
// The HTTP library ignores SIGPIPE in the whole process.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "web/backend.h"
#include "web/connection.h"
#include "web/event_hub.h"

namespace tandem::web {

struct ServerConfig {
  std::string address = "127.0.0.1";
  int port = 0;       // 0: a free one.
  std::string token;  // "": it can be read from this machine, and nothing else.
  Timeouts timeouts;
  std::chrono::milliseconds heartbeat{15000};  // In a stream of events.
  std::size_t connections = 64;                // That do not stream.
  // Gets a line for each request that changes something or fails; from any thread.
  std::function<void(std::string_view)> log;
};

class Server {
 public:
  // kDenied without a token where others could connect; kInvalidArgument when the address is in
  // use or not this machine's.
  static Result<std::unique_ptr<Server>> start(ServerConfig config, Backend& backend,
                                               EventHub& events);
  // Ends every connection, also streams, and waits for requests that the Backend is answering.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::web
