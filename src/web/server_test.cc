#include "web/server.h"

#include <sys/resource.h>

#include <condition_variable>
#include <deque>

#include "web/routes.h"
#include "web/testing.h"

namespace tandem::web {
namespace {

using nlohmann::json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Server, AnswersEveryRouteOverASocket) {
  TestServer server;
  for (const Route& route : routes()) {
    if (route.path == "/events") continue;  // Does not end.
    std::string path(route.path);
    if (const std::size_t at = path.find("{id}"); at != std::string::npos)
      path.replace(at, 4, "digits-1");
    std::string body = "{}";
    if (path == "/api/v1/jobs") body = R"({"job": "name = 'a'"})";
    if (path.ends_with("/resize")) body = R"({"workers": 2})";
    const std::string response =
        ask(server.port(), route.method == "GET" ? get_request(path) : post_request(path, body));
    EXPECT_EQ(status_of(response) / 100, 2) << route.method << " " << path << "\n" << response;
    EXPECT_NE(response.find("Cache-Control: no-store"), std::string::npos);
  }
}

TEST(Server, ErrorsAreJsonWithTheRightStatus) {
  TestServer server;
  const auto code = [&](const std::string& request) {
    const std::string response = ask(server.port(), request);
    const json body = body_of(response);
    const bool whole = body.is_object() && body.contains("error") &&
                       !body["error"]["message"].get<std::string>().empty();
    EXPECT_TRUE(whole) << response;
    EXPECT_NE(response.find("Content-Type: application/json"), std::string::npos);
    return status_of(response);
  };
  EXPECT_EQ(code(get_request("/nothing")), 404);
  EXPECT_EQ(code(get_request("/api/v1/jobs/digits-1/logs?offset=x")), 400);
  EXPECT_EQ(code(post_request("/api/v1/jobs", "{")), 400);
  EXPECT_EQ(code(post_request("/api/v1/jobs", R"({"job": "throw"})")), 500);
  EXPECT_EQ(code(post_request("/healthz", "{}")), 405);
  EXPECT_EQ(code("POST /api/v1/jobs HTTP/1.1\r\nConnection: close\r\n\r\n"), 401);
  EXPECT_EQ(code(get_request("/metrics", "Authorization: Bearer wrong\r\n")), 401);
  EXPECT_EQ(code("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 403);
  EXPECT_EQ(code(get_request("/metrics", "X-Forwarded-For: 192.0.2.1\r\n")), 401);
  EXPECT_EQ(code(get_request("/metrics", "Big: " + std::string(20000, 'a') + "\r\n")), 431);
  EXPECT_EQ(code(get_request("/" + std::string(3000, 'a'))), 414);
  EXPECT_EQ(code("GET /a?b?c HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(code("BREW /pot HTTP/1.1\r\n\r\n"), 501);
}

TEST(Server, GarbageCostsItsSenderOnly) {
  TestServer server;
  std::string bytes;
  for (int i = 0; i < 4000; ++i) bytes += static_cast<char>(i * 7919 % 251);
  for (const std::string& garbage :
       {std::string("\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 13),
        bytes + "\r\n\r\n", std::string("GET / HTTP/1.1\nHost: a\n\n\r\n\r\n"),
        std::string(100000, 'A'),
        std::string("POST / HTTP/1.1\r\nContent-Length: 5\r\n") +
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    const int status = status_of(ask(server.port(), garbage));
    EXPECT_GE(status, 400);
    EXPECT_LT(status, 500);
  }
  {
    RawSocket cut(server.port());
    cut.send("POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n\r\n{\"job\"");
  }
  EXPECT_EQ(status_of(ask(server.port(), get_request("/healthz"))), 200);
}

TEST(Server, ABodyOverTheLimitIsRefusedBeforeItIsSent) {
  TestServer server;
  const std::string body(kMostBodyBytes + 1, ' ');
  const std::string response = ask(server.port(), post_request("/api/v1/jobs", body));
  EXPECT_EQ(status_of(response), 413) << response;
  EXPECT_EQ(status_of(ask(server.port(),
                          "POST /api/v1/jobs HTTP/1.1\r\n"
                          "Content-Length: 999999999999\r\n\r\n")),
            413);
  // The largest that is allowed arrives whole.
  std::string job = R"({"job": "a)";
  job += std::string(kMostBodyBytes - job.size() - 2, 'a') + "\"}";
  EXPECT_EQ(status_of(ask(server.port(), post_request("/api/v1/jobs", job))), 201);
  EXPECT_EQ(server.backend.submitted.job_toml.size(), kMostBodyBytes - 11);
}

TEST(Server, TellsAClientThatWaitsToSendItsBody) {
  TestServer server;
  RawSocket socket(server.port());
  const std::string request =
      post_request("/api/v1/jobs/digits-1/cancel", "{}", "Expect: 100-continue\r\n");
  socket.send(request.substr(0, request.size() - 2));
  ASSERT_TRUE(socket.read_until("100 Continue\r\n\r\n"));
  socket.send("{}");
  EXPECT_TRUE(socket.read_until("\"did\":\"cancel\""));
}

TEST(Server, KeepsConnectionsAndAnswersWhatWasSentAhead) {
  TestServer server;
  RawSocket socket(server.port());
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (std::size_t i = 1; i <= 20; ++i) {
    socket.received.clear();
    socket.send(request);
    ASSERT_TRUE(socket.read_until("\"ok\"}\n"));
  }
  socket.received.clear();
  socket.send(request + request + get_request("/metrics"));
  ASSERT_TRUE(socket.read_to_end());
  EXPECT_NE(socket.received.find("tandem_jobs"), std::string::npos);
}

TEST(Server, AnswersHeadWithoutABody) {
  TestServer server;
  const std::string response =
      ask(server.port(), "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(response), 200);
  EXPECT_TRUE(response.ends_with("\r\n\r\n"));
}

TEST(Server, LogsWhatChangesOrFailsWithoutTheToken) {
  TestServer server;
  ask(server.port(), get_request("/healthz"));
  ask(server.port(), get_request("/no%0ahere"));
  ask(server.port(), post_request("/api/v1/jobs/digits-1/cancel", "{}"));
  const std::scoped_lock lock(server.log_mutex);
  EXPECT_EQ(server.log,
            (std::vector<std::string>{"GET /no?here from 127.0.0.1: 404",
                                      "POST /api/v1/jobs/digits-1/cancel from 127.0.0.1: 200"}));
}

TEST(Server, RefusesToListenToOthersWithoutAToken) {
  MemoryBackend backend;
  EventHub hub;
  for (const char* address : {"0.0.0.0", "::", "192.0.2.1"}) {
    const auto started = Server::start({.address = address}, backend, hub);
    ASSERT_FALSE(started.ok()) << address;
    EXPECT_EQ(started.error().code(), Code::kDenied);
    EXPECT_NE(started.error().message().find("tandem master --init"), std::string::npos);
  }
  EXPECT_TRUE(Server::start({.address = "127.0.0.1"}, backend, hub).ok());
  EXPECT_TRUE(Server::start({.address = "0.0.0.0", .token = "t"}, backend, hub).ok());
}

TEST(Server, SaysWhatToDoWhenItCannotListen) {
  TestServer server;
  const auto again = Server::start({.port = server.port()}, server.backend, server.hub);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), Code::kInvalidArgument);
  EXPECT_NE(again.error().message().find("another program uses this port"), std::string::npos);
  const auto elsewhere =
      Server::start({.address = "192.0.2.1", .token = "t"}, server.backend, server.hub);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_NE(elsewhere.error().message().find("does not have that address"), std::string::npos);
  EXPECT_FALSE(Server::start({.port = 70000}, server.backend, server.hub).ok());
}

TEST(Server, ThePortIsFreeAgainAtOnce) {
  TestServer server;
  const int port = server.port();
  ask(port, get_request("/healthz"));
  server.server.reset();
  EXPECT_TRUE(Server::start({.port = port}, server.backend, server.hub).ok());
}

TEST(Server, SilentConnectionsDoNotKeepOthersOut) {
  TestServer server;
  std::deque<RawSocket> silent;
  for (int i = 0; i < 400; ++i) {
    silent.emplace_back(server.port());
    // Some begin a request and stop.
    if (i % 2 == 0) silent.back().send("GET /healthz HTTP/1.1\r\nHo");
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(ask(server.port(), get_request("/api/v1/jobs"))), 200);
  EXPECT_LT(seconds_since(start), 5);
}

TEST(Server, ARequestThatDripsIsCutOff) {
  TestServer server({.timeouts = {.read = 300ms}});
  RawSocket socket(server.port());
  socket.send("GET /healthz HTTP/1.1\r\n");
  const auto start = std::chrono::steady_clock::now();
  while (!socket.ended && seconds_since(start) < 10) {
    socket.send("A: b\r\n");
    socket.read_until([&] { return socket.ended; }, 20ms);
  }
  EXPECT_TRUE(socket.ended);
  EXPECT_EQ(status_of(socket.received), 408) << socket.received;
}

TEST(Server, ASilentConnectionIsClosed) {
  TestServer server({.timeouts = {.idle = 100ms}});
  RawSocket socket(server.port());
  EXPECT_TRUE(socket.read_to_end());
  EXPECT_EQ(socket.received, "");
}

TEST(Server, SaysSoWhenEveryPlaceIsBusy) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  ServerConfig config{.connections = 2};
  TestServer server(config);
  server.backend.before_answer = [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  };
  std::deque<RawSocket> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back(server.port());
    busy.back().send(get_request("/api/v1/jobs"));
  }
  ASSERT_TRUE(eventually([&] { return server.backend.calls().size() == 2; }));
  RawSocket third(server.port());
  ASSERT_TRUE(third.read_to_end());
  EXPECT_EQ(status_of(third.received), 503) << third.received;
  {
    const std::scoped_lock lock(mutex);
    open = true;
  }
  changed.notify_all();
  for (RawSocket& socket : busy) EXPECT_TRUE(socket.read_until("digits-1"));
}

TEST(Server, EndsAtOnceWhateverIsConnected) {
  auto server = std::make_unique<TestServer>();
  std::deque<RawSocket> sockets;
  for (int i = 0; i < 30; ++i) sockets.emplace_back(server->port());
  for (int i = 0; i < 10; ++i) sockets[static_cast<std::size_t>(i)].send(get_request("/events"));
  ASSERT_TRUE(eventually([&] { return server->hub.readers() == 10; }));
  const auto start = std::chrono::steady_clock::now();
  server->server.reset();
  EXPECT_LT(seconds_since(start), 1);
  for (RawSocket& socket : sockets) EXPECT_TRUE(socket.read_to_end());
}

}  // namespace
}  // namespace tandem::web
