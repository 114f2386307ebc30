// Streams of events over real sockets.
#include <deque>

#include "web/event_parser.h"
#include "web/testing.h"

namespace tandem::web {
namespace {

TEST(Events, AClientSeesWhatIsPublished) {
  TestServer server;
  RawSocket socket(server.port());
  socket.send(get_request("/events"));
  ASSERT_TRUE(socket.read_until(": connected\n\n"));
  EXPECT_EQ(status_of(socket.received), 200);
  EXPECT_NE(socket.received.find("Content-Type: text/event-stream"), std::string::npos);
  server.hub.publish("{\"kind\":\"started\"}");
  EXPECT_TRUE(socket.read_until("id: 1\ndata: {\"kind\":\"started\"}\n\n"));
  server.hub.publish("{\"kind\":\"ended\"}");
  EXPECT_TRUE(socket.read_until("id: 2\ndata: {\"kind\":\"ended\"}\n\n"));
}

TEST(Events, AClientThatComesBackGoesOnWhereItWas) {
  TestServer server;
  for (int i = 1; i <= 3; ++i) server.hub.publish(std::to_string(i));
  for (const std::string& request :
       {get_request("/events", "Last-Event-ID: 1\r\n"), get_request("/events?after=1")}) {
    RawSocket socket(server.port());
    socket.send(request);
    ASSERT_TRUE(socket.read_until("id: 3\ndata: 3\n\n"));
    EXPECT_NE(socket.received.find("id: 2\ndata: 2\n\n"), std::string::npos);
    EXPECT_EQ(socket.received.find("id: 1\n"), std::string::npos);
  }
}

TEST(Events, ALostPlaceIsSaidToTheClient) {
  TestServer server;
  for (std::size_t i = 0; i < EventHub::kKept + 5; ++i) server.hub.publish("x");
  RawSocket socket(server.port());
  socket.send(get_request("/events", "Last-Event-ID: 2\r\n"));
  EXPECT_TRUE(socket.read_until("event: missed\ndata: {\"next\": 6}\n\n"));
  EXPECT_TRUE(socket.read_until("id: 6\n"));
}

TEST(Events, HeartbeatsComeWhileNothingHappens) {
  TestServer server({.heartbeat = 50ms});
  RawSocket socket(server.port());
  socket.send(get_request("/events"));
  EXPECT_TRUE(socket.read_until(": alive\n\n"));
}

TEST(Events, ASlowClientIsDroppedAndHoldsNobodyUp) {
  TestServer server({.timeouts = {.write = 300ms}});
  RawSocket slow(server.port(), 4096);
  slow.send(get_request("/events"));
  RawSocket quick(server.port());
  quick.send(get_request("/events"));
  ASSERT_TRUE(eventually([&] { return server.hub.readers() == 2; }));
  ASSERT_TRUE(quick.read_until(": connected"));
  const std::string event(20000, 'x');
  std::size_t published = 0;
  // More than the kernel's buffers take, read by one client only.
  ASSERT_TRUE(eventually([&] {
    ++published;
    server.hub.publish(event);
    const std::string id = "id: " + std::to_string(published) + "\n";
    EXPECT_TRUE(quick.read_until(id));
    quick.received.clear();
    return server.hub.readers() == 1;
  }));
  server.hub.publish("last");
  EXPECT_TRUE(quick.read_until("data: last\n"));
}

TEST(Events, AClientThatLeftFreesItsPlace) {
  TestServer server;
  {
    RawSocket socket(server.port());
    socket.send(get_request("/events"));
    ASSERT_TRUE(socket.read_until(": connected"));
  }
  EXPECT_TRUE(eventually([&] { return server.hub.readers() == 0; }));
}

TEST(Events, TooManyClientsAreToldAndTheApiGoesOn) {
  TestServer server;
  std::deque<RawSocket> sockets;
  for (std::size_t i = 0; i < EventHub::kMostReaders; ++i) {
    sockets.emplace_back(server.port());
    sockets.back().send(get_request("/events"));
    ASSERT_TRUE(sockets.back().read_until(": connected"));
  }
  const std::string refused = ask(server.port(), get_request("/events"));
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_EQ(body_of(refused).at("error").at("code"), "too_many_clients");
  // Streams do not count against the connections of the API, and are not sent away for them.
  std::deque<RawSocket> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(server.port());
  EXPECT_EQ(status_of(ask(server.port(), get_request("/api/v1/jobs"))), 200);
  server.hub.publish("1");
  for (RawSocket& socket : sockets) EXPECT_TRUE(socket.read_until("id: 1\n"));
}

TEST(Events, NeedATokenWhereOtherReadsDo) {
  TestServer server;
  EXPECT_EQ(status_of(ask(server.port(), get_request("/events", "Via: 1.1 proxy\r\n"))), 401);
}

}  // namespace
}  // namespace tandem::web
