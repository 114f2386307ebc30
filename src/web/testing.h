// Helpers of this folder's tests: a Backend that answers from memory, a server with it on a free
// port, and a raw socket that sends and reads bytes with a deadline.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "web/server.h"

namespace tandem::web {

using namespace std::chrono_literals;

// Knows one job, "digits-1". What was asked for is kept in `calls`.
class MemoryBackend : public Backend {
 public:
  Result<nlohmann::json> jobs() override {
    note("jobs");
    if (before_answer) before_answer();
    return nlohmann::json{{"jobs", {{{"id", "digits-1"}}}}};
  }
  Result<nlohmann::json> job(const std::string& id) override { return about(id, "job"); }
  Result<nlohmann::json> nodes() override {
    return nlohmann::json{{"nodes", nlohmann::json::array()}};
  }
  Result<nlohmann::json> submit(const Submission& submission) override {
    note("submit " + submission.base_directory + " " + std::to_string(submission.priority));
    submitted = submission;
    if (submission.job_toml == "throw") throw std::runtime_error("disk on fire");
    if (submission.job_toml == "wrong")
      return Error(Code::kInvalidArgument, "unknown key `train.optimiser`");
    return nlohmann::json{{"id", "digits-2"}};
  }
  Result<nlohmann::json> cancel(const std::string& id) override { return about(id, "cancel"); }
  Result<nlohmann::json> resume(const std::string& id, std::optional<std::int64_t> step) override {
    return about(id, "resume " + (step ? std::to_string(*step) : "newest"));
  }
  Result<nlohmann::json> resize(const std::string& id, const Resizing& wanted) override {
    return about(id, "resize " + std::to_string(wanted.workers.value_or(0)) +
                         (wanted.servers ? ", servers " + std::to_string(*wanted.servers) : ""));
  }
  Result<nlohmann::json> report(const std::string& id) override { return about(id, "report"); }
  Result<LogPart> logs(const LogQuery& query) override {
    if (query.job != "digits-1") return Error(Code::kNotFound, "there is no job " + query.job);
    const std::scoped_lock lock(mutex_);
    const std::size_t from = std::min<std::size_t>(query.offset, log.size());
    // In small parts, so that a reader must come again.
    const std::string text = log.substr(from, log_part_bytes);
    return LogPart{.text = text,
                   .next_offset = from + text.size(),
                   .ended = log_ended && from + text.size() == log.size()};
  }
  Result<LogPart> metrics_lines(const std::string& id, std::uint64_t offset) override {
    TANDEM_ASSIGN(const nlohmann::json ignored, about(id, "metrics"));
    return LogPart{.text = "{\"step\":1}\n", .next_offset = offset + 11, .ended = false};
  }
  std::string prometheus() override { return "tandem_jobs 1\n"; }

  std::vector<std::string> calls() {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }

  // Set before the server starts.
  std::function<void()> before_answer;
  std::string log = "hello\nworld\n";
  std::size_t log_part_bytes = 8;
  bool job_has_ended = false;  // Nothing can be changed then.
  bool log_ended = true;
  Submission submitted;

 private:
  void note(const std::string& call) {
    const std::scoped_lock lock(mutex_);
    calls_.push_back(call);
  }
  Result<nlohmann::json> about(const std::string& id, const std::string& call) {
    note(call);
    if (id != "digits-1") return Error(Code::kNotFound, "there is no job " + id);
    if (job_has_ended && call != "job")
      return Error(Code::kInvalidArgument, "it has ended already");
    return nlohmann::json{{"id", id}, {"did", call}};
  }

  std::mutex mutex_;
  std::vector<std::string> calls_;
};

constexpr std::string_view kToken = "0123456789abcdef";

struct TestServer {
  explicit TestServer(ServerConfig config = {}) {
    config.token = kToken;
    config.log = [this](std::string_view line) {
      const std::scoped_lock lock(log_mutex);
      log.emplace_back(line);
    };
    auto started = Server::start(std::move(config), backend, hub);
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message());
    if (started.ok()) server = std::move(started).value();
  }
  int port() const { return server->port(); }

  MemoryBackend backend;
  EventHub hub;
  std::mutex log_mutex;
  std::vector<std::string> log;
  std::unique_ptr<Server> server;  // Last: it ends first.
};

// Waits until `reached` holds; false when it did not in time.
inline bool eventually(const std::function<bool()>& reached, std::chrono::seconds most = 10s) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (!reached()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

class RawSocket {
 public:
  explicit RawSocket(int port, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) {
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* target = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::connect(socket_.get(), target, sizeof address), 0);
  }

  // What the other end does not take is lost, as when it closes.
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Reads until `done`, the end or the deadline; what was read stays in `received`.
  bool read_until(const std::function<bool()>& done, std::chrono::milliseconds most = 10s) {
    const auto deadline = std::chrono::steady_clock::now() + most;
    while (!done()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return false;
      char buffer[4096];
      const ssize_t bytes = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (bytes <= 0) {
        ended = true;
        return done();
      }
      received.append(buffer, static_cast<std::size_t>(bytes));
    }
    return true;
  }
  bool read_until(std::string_view text, std::chrono::milliseconds most = 10s) {
    return read_until([&] { return received.find(text) != std::string::npos; }, most);
  }
  bool read_to_end(std::chrono::milliseconds most = 10s) {
    return read_until([&] { return ended; }, most);
  }

  std::string received;
  bool ended = false;

 private:
  Descriptor socket_;
};

// A request over a connection of its own; everything that came back.
inline std::string ask(int port, const std::string& request) {
  RawSocket socket(port);
  socket.send(request);
  EXPECT_TRUE(socket.read_to_end()) << request.substr(0, 200) << "\n" << socket.received;
  return socket.received;
}

inline std::string get_request(std::string_view path, std::string_view headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
         std::string(headers) + "\r\n";
}

inline std::string post_request(std::string_view path, std::string_view body,
                                std::string_view headers = "") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " +
         std::string(kToken) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

inline int status_of(std::string_view response) {
  if (!response.starts_with("HTTP/1.1 ") || response.size() < 12) return 0;
  return std::stoi(std::string(response.substr(9, 3)));
}

inline nlohmann::json body_of(const std::string& response) {
  const std::size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? nlohmann::json()
                                  : nlohmann::json::parse(response.substr(end + 4), nullptr, false);
}

}  // namespace tandem::web
