// For tests of parameter servers: servers that run in threads of their own, and the result that a
// worker alone would have.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "net/tls.h"
#include "ps/client.h"
#include "ps/server.h"

namespace tandem::ps {

// A credit of one piece at a time: workers wait as often as they can.
inline constexpr std::uint64_t kLeastCredit = 1;

// When a worker dies: in which task that it gets, after how many buckets.
struct Death {
  int worker = -1;
  int tasks = 0;
  std::size_t buckets = 0;
};

// Servers on loopback, each on a thread, until the end of the object.
class TestServers {
 public:
  explicit TestServers(std::size_t count, std::string token = "token",
                       std::shared_ptr<const net::Tls> tls = nullptr,
                       std::uint64_t credit_bytes = Credit::kNoLimit)
      : token_(std::move(token)), tls_(std::move(tls)), credit_bytes_(credit_bytes) {
    for (std::size_t i = 0; i < count; ++i) start();
  }
  ~TestServers() {
    for (std::size_t i = 0; i < running_.size(); ++i) stop(i);
  }

  const std::vector<net::Endpoint>& endpoints() const { return endpoints_; }
  const std::string& token() const { return token_; }
  const std::shared_ptr<const net::Tls>& tls() const { return tls_; }

  void start() {
    ServerConfig config;
    config.token = token_;
    config.tls = tls_;
    config.credit_bytes = credit_bytes_;
    auto server = Server::create(config);
    TANDEM_CHECK(server.ok());
    endpoints_.push_back({"127.0.0.1", (*server)->port()});
    running_.push_back(std::make_unique<Running>(std::move(server).value()));
  }
  // As if it had died: its connections are reset.
  void stop(std::size_t index) { running_[index].reset(); }

 private:
  struct Running {
    explicit Running(std::unique_ptr<Server> served)
        : server(std::move(served)), thread([this](const std::stop_token& end) {
            while (!end.stop_requested()) server->turn(std::chrono::milliseconds(5));
          }) {}
    std::unique_ptr<Server> server;
    std::jthread thread;
  };

  const std::string token_;
  const std::shared_ptr<const net::Tls> tls_;
  const std::uint64_t credit_bytes_;
  std::vector<net::Endpoint> endpoints_;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace tandem::ps
