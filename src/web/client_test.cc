#include "web/client.h"

#include <fmt/format.h>

#include <csignal>

#include "web/listener.h"
#include "web/testing.h"

namespace tandem::web {
namespace {

Client client_of(const TestServer& server, std::string_view token = kToken) {
  return Client({.master = {.host = "127.0.0.1", .port = server.port()},
                 .token = std::string(token),
                 .poll_interval = 1ms});
}

TEST(Client, EveryCallReachesTheBackend) {
  TestServer server;
  const Client client = client_of(server);
  const auto check = [](const Result<nlohmann::json>& result, const char* key) {
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_TRUE(result->contains(key)) << *result;
  };
  check(client.jobs(), "jobs");
  check(client.job("digits-1"), "id");
  check(client.nodes(), "nodes");
  check(client.submit({.job_toml = "a", .overrides = {"b=c"}, .base_directory = "/d"}), "id");
  check(client.cancel("digits-1"), "id");
  check(client.resume("digits-1", std::nullopt), "id");
  check(client.resume("digits-1", 12), "id");
  check(client.resize("digits-1", {4, 2}), "id");
  check(client.report("digits-1"), "id");
  EXPECT_EQ(server.backend.submitted.overrides, std::vector<std::string>{"b=c"});
  const auto metrics = client.metrics_lines("digits-1", 11);
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->next_offset, 22u);
}

TEST(Client, TheMastersErrorsComeBackAsTheyWere) {
  TestServer server;
  const Client client = client_of(server);
  const auto missing = client.job("other");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_EQ(missing.error().message(), "there is no job other") << "routes are no hint for people";
  EXPECT_EQ(client.submit({.job_toml = "wrong"}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(client.submit({.job_toml = "throw"}).error().code(), Code::kInternal);
  const Error denied = client_of(server, "wrong").jobs().error();
  EXPECT_EQ(denied.code(), Code::kDenied);
  EXPECT_NE(denied.message().find("--secret FILE"), std::string::npos) << denied.message();
  EXPECT_EQ(client_of(server, "").cancel("digits-1").error().code(), Code::kDenied);
  EXPECT_EQ(client.get("/nothing").error().code(), Code::kNotFound);
  EXPECT_EQ(client.job("../etc").error().code(), Code::kInvalidArgument);
}

TEST(Client, WithoutAMasterSaysHowToStartOrNameOne) {
  auto listener = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const int port = listener->port;
  listener->socket.close();
  const Client client({.master = {.host = "127.0.0.1", .port = port}});
  const auto jobs = client.jobs();
  ASSERT_FALSE(jobs.ok());
  EXPECT_EQ(jobs.error().code(), Code::kPeerLost);
  EXPECT_EQ(jobs.error().message(),
            fmt::format("no master at 127.0.0.1:{}; start one with `tandem master`, or name it "
                        "with --master HOST:PORT or TANDEM_MASTER",
                        port));
}

TEST(Client, DoesNotWaitForAMasterThatSaysNothing) {
  auto listener = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const Client client({.master = {.host = "127.0.0.1", .port = listener->port}, .timeout = 200ms});
  EXPECT_EQ(client.jobs().error().code(), Code::kTimeout);
}

TEST(Client, NoticesWhenTheOtherEndIsNoMaster) {
  auto listener = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const auto answer_with = [&](std::string_view text) {
    std::jthread other([&] {
      pollfd entry{.fd = listener->socket.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&entry, 1, 10000), 1);
      const Descriptor socket(::accept4(listener->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char buffer[4096];
      EXPECT_GT(::recv(socket.get(), buffer, sizeof buffer, 0), 0);
      EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(text.size()));
    });
    const Client client({.master = {.host = "127.0.0.1", .port = listener->port}});
    const auto jobs = client.jobs();
    EXPECT_FALSE(jobs.ok());
    return jobs.ok() ? Code::kCancelled : jobs.error().code();
  };
  EXPECT_EQ(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<ht>"), Code::kCorrupt);
  EXPECT_EQ(answer_with("HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}"), Code::kInternal);
  EXPECT_EQ(answer_with("HTTP/1.1 404 No\r\nContent-Length: 11\r\n\r\n{\"error\":1}"),
            Code::kNotFound);
  EXPECT_EQ(answer_with("SSH-2.0-OpenSSH\r\n"), Code::kPeerLost);
}

TEST(Client, SurvivesAMasterThatClosesWhileItSends) {
  auto listener = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const int small = 4096;  // So that the client is still sending when the end comes.
  ::setsockopt(listener->socket.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  std::jthread other([&] {
    pollfd entry{.fd = listener->socket.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&entry, 1, 10000), 1);
    const Descriptor socket(::accept4(listener->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char byte = 0;
    EXPECT_EQ(::recv(socket.get(), &byte, 1, 0), 1);
    // An end first and a reset then: the order in which a write raises SIGPIPE.
    ::shutdown(socket.get(), SHUT_WR);
  });
  // As in a program that has no server.
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  const Client client({.master = {.host = "127.0.0.1", .port = listener->port}});
  const auto submitted = client.submit({.job_toml = std::string(1'000'000, 'x')});
  std::signal(SIGPIPE, before);
  ASSERT_FALSE(submitted.ok());
  EXPECT_EQ(submitted.error().code(), Code::kPeerLost);
}

TEST(Client, DoesNotSendWhatNoMasterTakes) {
  TestServer server;
  const auto submitted = client_of(server).submit({.job_toml = std::string(1 << 20, 'x')});
  ASSERT_FALSE(submitted.ok());
  EXPECT_EQ(submitted.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(server.backend.calls().empty());
}

TEST(Client, FollowsALogToItsEnd) {
  TestServer server;
  server.backend.log = "one\ntwo\nthree\nfour\n";
  std::string shown;
  const Status followed =
      client_of(server).follow_logs({.job = "digits-1"}, [&](std::string_view text) {
        shown += text;
        return Interest::kMore;
      });
  EXPECT_TRUE(followed.ok());
  EXPECT_EQ(shown, server.backend.log);
}

TEST(Client, StopsFollowingWhenItHasSeenEnough) {
  TestServer server;
  server.backend.log_ended = false;
  int looks = 0;
  const Status followed = client_of(server).follow_logs({.job = "digits-1"}, [&](std::string_view) {
    return ++looks == 5 ? Interest::kEnough : Interest::kMore;
  });
  EXPECT_TRUE(followed.ok());
  EXPECT_EQ(looks, 5);
}

TEST(Client, StreamsEventsFromWhereItWas) {
  TestServer server;
  for (int i = 1; i <= 5; ++i) server.hub.publish(std::to_string(i));
  std::vector<std::string> seen;
  const Status streamed = client_of(server).stream_events(2, [&](const StreamEvent& event) {
    seen.push_back(event.data);
    return event.id == 5u ? Interest::kEnough : Interest::kMore;
  });
  EXPECT_TRUE(streamed.ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"3", "4", "5"}));
}

TEST(Client, SaysWhyAStreamOfEventsEnds) {
  TestServer server;
  const auto take = [](const StreamEvent&) { return Interest::kMore; };
  EXPECT_EQ(client_of(server, "wrong").stream_events({}, take).error().code(), Code::kDenied);
  const Client client = client_of(server);
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return server.hub.readers() == 1; }));
    server.server.reset();
  });
  EXPECT_EQ(client.stream_events({}, take).error().code(), Code::kPeerLost);
}

TEST(Endpoint, IsAHostAndAPort) {
  const auto good = parse_endpoint("trainer.example:7070");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->host, "trainer.example");
  EXPECT_EQ(good->port, 7070);
  EXPECT_EQ(parse_endpoint("[::1]:80")->host, "::1");
  for (const char* text : {"", "host", ":80", "host:", "host:0", "host:65536", "host:8x", "::1:80",
                           "http://host:80", "[::1]", "a b:80", "user@host:80"}) {
    EXPECT_FALSE(parse_endpoint(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tandem::web
