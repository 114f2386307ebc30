#include "web/exchange.h"

// Debian compiles the library with it, and it changes the layout of its types.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <algorithm>
#include <cstring>

#include "web/ascii.h"

namespace tandem::web {
namespace {

// How long a client of events may be gone before its place is free.
constexpr std::chrono::milliseconds kPeerCheck{1000};

// A request from memory, the reply to the connection.
class MemoryStream : public httplib::Stream {
 public:
  MemoryStream(std::string_view input, Connection& connection)
      : input_(input), connection_(connection) {}

  bool is_readable() const override { return !input_.empty(); }
  bool is_writable() const override { return connection_.peer_is_there(); }
  ssize_t read(char* target, size_t size) override {
    const std::size_t bytes = std::min(size, input_.size());
    std::memcpy(target, input_.data(), bytes);
    input_.remove_prefix(bytes);
    return static_cast<ssize_t>(bytes);
  }
  ssize_t write(const char* data, size_t size) override { return connection_.write(data, size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = connection_.peer_address();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  // The library refuses descriptors that select() cannot take; this stream does not need it.
  socket_t socket() const override { return 0; }

 private:
  std::string_view input_;
  Connection& connection_;
};

Request to_request(const httplib::Request& request, const std::string& body, Peer peer) {
  Request result{.method = request.method,
                 .path = request.path,
                 .query = request.params,
                 .headers = {},
                 .body = body,
                 .peer = peer};
  for (const auto& [name, value] : request.headers) {
    result.headers.emplace(ascii_lower(name), value);
  }
  return result;
}

}  // namespace

class Exchange::Library : private httplib::Server {
 public:
  explicit Library(Connection& connection) : connection_(connection) {
    // It streams a body only while it has a socket to listen on.
    svr_sock_ = 0;
    set_keep_alive_timeout(5);
    set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      respond(request, response);
      return HandlerResponse::Handled;
    });
    set_error_handler(HandlerWithResponse([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return HandlerResponse::Unhandled;
      const Reply reply = error_reply({.status = response.status,
                                       .code = to_string(Code::kInvalidArgument),
                                       .message = "the request cannot be read",
                                       .hint = "send a request as HTTP/1.1 describes it"});
      response.set_content(reply.body, reply.content_type);
      return HandlerResponse::Handled;
    }));
  }
  ~Library() override { svr_sock_ = INVALID_SOCKET; }

  Afterwards run(const Received& received, const Answer& answer,
                 std::unique_ptr<EventSource>& events) {
    answer_ = &answer;
    body_ = &received.body;
    events_ = &events;
    MemoryStream stream(received.head.text, connection_);
    answered_ = false;
    bool closed = false;
    const bool written = process_request(stream, false, closed, nullptr);
    return written && answered_ && !closed ? Afterwards::kKeep : Afterwards::kClose;
  }

 private:
  void respond(const httplib::Request& request, httplib::Response& response) {
    answered_ = true;
    const Reply reply = (*answer_)(to_request(request, *body_, connection_.peer()));
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (*events_ == nullptr) {
      response.set_content(reply.body, reply.content_type);
      return;
    }
    response.set_chunked_content_provider(
        reply.content_type,
        [this](std::size_t offset, httplib::DataSink& sink) { return send_events(offset, sink); });
  }

  // Sends what there is, or a heartbeat. False ends the stream without its end mark: the client
  // connects again.
  bool send_events(std::size_t offset, httplib::DataSink& sink) {
    EventSource& source = **events_;
    const auto send = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
    if (offset == 0) return send(": connected\n\n" + source.subscription.greeting);
    const auto heartbeat_at = std::chrono::steady_clock::now() + source.heartbeat;
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= heartbeat_at) return send(": alive\n\n");
      const EventHub::Next next =
          source.subscription.reader->next(std::min(heartbeat_at, now + kPeerCheck), source.stop);
      if (next.outcome == EventHub::Outcome::kEvents) return send(next.text);
      if (next.outcome != EventHub::Outcome::kQuiet || !sink.is_writable()) return false;
    }
  }

  Connection& connection_;
  // Those of the call of run() that is under way.
  const Answer* answer_ = nullptr;
  const std::string* body_ = nullptr;
  std::unique_ptr<EventSource>* events_ = nullptr;
  bool answered_ = false;  // Not when the library could not parse the request.
};

Exchange::Exchange(Connection& connection) : library_(std::make_unique<Library>(connection)) {}
Exchange::~Exchange() = default;

Afterwards Exchange::run(const Received& received, const Answer& answer,
                         std::unique_ptr<EventSource>& events) {
  return library_->run(received, answer, events);
}

void Exchange::refuse(const Reply& reply) {
  const Received received{.head = {.text = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"}};
  std::unique_ptr<EventSource> none;
  library_->run(
      received, [&](const Request&) { return reply; }, none);
}

}  // namespace tandem::web
