#include "web/server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stop_token>
#include <thread>
#include <utility>

#include "web/api.h"
#include "web/connection_table.h"
#include "web/exchange.h"
#include "web/listener.h"

namespace tandem::web {
namespace {

// When descriptors or memory are short, others must end before accept() can work again.
constexpr int kShortageMs = 50;

std::vector<std::string> names_of_this_machine(const std::string& address) {
  std::array<char, 256> name{};
  std::vector<std::string> names = {address};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    const std::string whole(name.data());
    names.push_back(whole);
    names.push_back(whole.substr(0, whole.find('.')));
    names.push_back(names.back() + ".local");
  }
  return names;
}

Reply too_many_streams() {
  Reply reply = error_reply(
      {.status = 503,
       .code = "too_many_clients",
       .message = fmt::format("{} clients watch the events already", EventHub::kMostReaders),
       .hint = "close one, or ask GET /api/v1/jobs now and then"});
  reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

// Best effort: nobody may wait here, and a client that still sends may miss it.
void say_busy(const Descriptor& socket) {
  const Reply reply = error_reply({.status = 503,
                                   .code = "busy",
                                   .message = "the master is answering too many requests",
                                   .hint = "try again in a moment"});
  const std::string text = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Connection: close\r\nRetry-After: 1\r\n\r\n{}",
      reply.content_type, reply.body.size(), reply.body);
  ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket.get(), SHUT_WR);
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerConfig config, Listener listener, Descriptor wake, Backend& backend, EventHub& events)
      : config_(std::move(config)),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        api_(backend,
             {.token = config_.token, .host_names = names_of_this_machine(config_.address)}),
        events_(events),
        table_(config_.connections),
        acceptor_([this] { accept_all(); }) {}

  ~Impl() {
    stop_.request_stop();
    const std::uint64_t one = 1;
    // An eventfd takes it unless it is full, which wakes as well.
    [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
    acceptor_.join();
    table_.stop();
  }

  int port() const { return listener_.port; }

 private:
  void accept_all();
  void serve(ConnectionTable::Entry& entry);
  Reply answer(const Request& request, ConnectionTable::Entry& entry,
               std::unique_ptr<EventSource>& source);
  void log(const Request& request, const Reply& reply, const std::string& peer) const;

  // Constant after construction.
  const ServerConfig config_;
  const Listener listener_;
  const Descriptor wake_;
  const Api api_;
  EventHub& events_;

  // Safe from any thread.
  std::stop_source stop_;
  ConnectionTable table_;

  std::thread acceptor_;  // Last: it uses all of the above.
};

void Server::Impl::accept_all() {
  while (!stop_.stop_requested()) {
    std::array<pollfd, 2> entries = {
        pollfd{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[1].revents != 0) return;
    Descriptor socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.is_open()) {
      const auto serve_one = [this](ConnectionTable::Entry& entry) { serve(entry); };
      if (!table_.add(socket, config_.timeouts, serve_one)) say_busy(socket);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      ::poll(&entries[1], 1, kShortageMs);
    }
  }
}

void Server::Impl::serve(ConnectionTable::Entry& entry) {
  using State = ConnectionTable::State;
  Connection& connection = entry.connection;
  Exchange exchange(connection);
  for (;;) {
    std::variant<Received, Reply, Ended> next = connection.receive();
    if (std::holds_alternative<Ended>(next)) return;
    if (const Reply* refusal = std::get_if<Reply>(&next)) {
      exchange.refuse(*refusal);
      connection.drain();
      return;
    }
    if (!table_.set_state(entry, State::kAnswering)) return;
    std::unique_ptr<EventSource> source;
    const auto answer_one = [&](const Request& request) { return answer(request, entry, source); };
    const Afterwards afterwards = exchange.run(std::get<Received>(next), answer_one, source);
    if (afterwards == Afterwards::kClose) return;
    if (!table_.set_state(entry, State::kWaiting)) return;
  }
}

Reply Server::Impl::answer(const Request& request, ConnectionTable::Entry& entry,
                           std::unique_ptr<EventSource>& source) {
  using State = ConnectionTable::State;
  Reply reply = api_.handle(request);
  if (reply.events) {
    std::optional<EventHub::Subscription> subscription = events_.subscribe(*reply.events);
    if (subscription) {
      source = std::make_unique<EventSource>(EventSource{.subscription = *std::move(subscription),
                                                         .heartbeat = config_.heartbeat,
                                                         .stop = stop_.get_token()});
    } else {
      reply = too_many_streams();
    }
  }
  log(request, reply, entry.connection.peer_address());
  // From here on only the client is waited for. One that was sent away notices when it writes.
  (void)table_.set_state(entry, source ? State::kStreaming : State::kWaiting);
  return reply;
}

void Server::Impl::log(const Request& request, const Reply& reply, const std::string& peer) const {
  const bool read = request.method == "GET" || request.method == "HEAD";
  if (!config_.log || (read && reply.status < 400)) return;
  std::string path = request.path.substr(0, 200);
  for (char& c : path)
    if (c < 0x20 || c == 0x7F) c = '?';
  config_.log(fmt::format("{} {} from {}: {}", request.method, path, peer, reply.status));
}

Result<std::unique_ptr<Server>> Server::start(ServerConfig config, Backend& backend,
                                              EventHub& events) {
  if (config.token.empty() && !is_loopback(config.address)) {
    return Error(Code::kDenied,
                 fmt::format("listen at {}: others could connect, and there is no token to keep "
                             "them out; make one with `tandem master --init`, or listen at "
                             "127.0.0.1",
                             config.address));
  }
  TANDEM_ASSIGN(Listener listener, listen_at(config.address, config.port));
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return system_error("start the HTTP server", errno);
  return std::unique_ptr<Server>(new Server(std::make_unique<Impl>(
      std::move(config), std::move(listener), std::move(wake), backend, events)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
int Server::port() const {
  return impl_->port();
}

}  // namespace tandem::web
