#include "net/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <utility>

#include "base/descriptor.h"
#include "net/handshake.h"
#include "net/stream.h"
#include "net/stream_channel.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;

// Not more at once, so that those who are in get their turn.
constexpr int kAcceptsInARow = 64;
// Without descriptors accept() fails at once and for ever; somebody else must close one first.
constexpr auto kPauseWithoutDescriptors = 100ms;

Error cannot_listen(const Endpoint& endpoint, int error_number) {
  const std::string doing = "listen on " + to_string(endpoint);
  if (error_number == EADDRINUSE) {
    return Error(Code::kInvalidArgument,
                 doing + ": another program listens there; stop it or choose another port");
  }
  if (error_number == EADDRNOTAVAIL) {
    return Error(Code::kInvalidArgument,
                 doing + ": this host does not have that address; use one of its own, or 0.0.0.0");
  }
  return system_error(doing, error_number);
}

Result<Descriptor> bind_to(const Endpoint& endpoint, const Security& security) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (const int failed = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("listen on {}: {}", to_string(endpoint), ::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  if (!security.secret.has_value() && !is_loopback(found->ai_addr)) return needs_secret(endpoint);
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return cannot_listen(endpoint, errno);
  // A restarted master must not wait until the kernel forgets its old connections.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return cannot_listen(endpoint, errno);
  }
  return socket;
}

Endpoint local_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return endpoint_of(reinterpret_cast<sockaddr*>(&address));
}

}  // namespace

class Listener::State : public std::enable_shared_from_this<Listener::State> {
 public:
  State(Loop& loop, Descriptor socket, Security security, std::shared_ptr<Tls> tls,
        const Limits& limits, Handler handler)
      : loop_(loop),
        socket_(std::move(socket)),
        local_(local_of(socket_.get())),
        security_(std::move(security)),
        tls_(std::move(tls)),
        limits_(limits),
        handler_(std::move(handler)) {}

  Status start() {
    TANDEM_ASSIGN(watch_,
                  loop_.watch(socket_.get(), [self = shared_from_this()] { self->accept(); }));
    return {};
  }

  void stop() {
    stopped_ = true;
    watch_.cancel();
    pause_.cancel();
    for (const auto& handshake : waiting_) handshake->cancel();
    waiting_.clear();
    socket_.close();
  }

  const Endpoint& local() const { return local_; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  using Handshakes = std::list<std::shared_ptr<Handshake>>;

  void accept() {
    for (int i = 0; i < kAcceptsInARow && !stopped_; ++i) {
      Descriptor peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (peer.is_open()) {
        out_of_descriptors_ = false;
        greet(std::move(peer));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return pause(errno);
      }
      // Anything else concerns one connection that is gone already.
    }
  }

  void pause(int error_number) {
    watch_.cancel();
    pause_ = loop_.after(kPauseWithoutDescriptors, [self = shared_from_this()] {
      if (Status status = self->start(); !status.ok()) self->pause(ENOMEM);
    });
    if (!std::exchange(out_of_descriptors_, true)) {
      refused(
          to_string(local_),
          Error(Code::kOutOfSpace, fmt::format("take a connection: {}; others wait until "
                                               "some are closed (see `ulimit -n`)",
                                               system_error("accept", error_number).message())));
    }
  }

  void greet(Descriptor peer) {
    auto handshake = std::make_shared<Handshake>(
        loop_, make_stream(loop_, std::move(peer), Role::kListens, tls_), Role::kListens,
        security_.secret);
    if (waiting_.size() >= limits_.waiting && !make_room()) {
      handshake->refuse(Reason::kTooBusy);
      return refused(handshake->stream()->peer(), refusal_found(Reason::kTooBusy, 0));
    }
    // Whoever was told of the one that went may have destroyed the listener.
    if (stopped_) return handshake->cancel();
    const auto place = waiting_.insert(waiting_.end(), handshake);
    handshake->start(limits_.handshake, [self = shared_from_this(), place](Result<Keys> keys) {
      const std::shared_ptr<Stream> stream = (*place)->stream();
      self->waiting_.erase(place);
      if (!keys.ok()) return self->refused(stream->peer(), keys.error());
      self->handler_.on_channel(make_channel(self->loop_, stream, *keys, self->limits_));
    });
  }

  // Drops the one that has had most time and used it least: the oldest that said nothing, or the
  // oldest, unless even that one came just now. Whether it found one.
  bool make_room() {
    auto victim = std::find_if(waiting_.begin(), waiting_.end(),
                               [](const auto& handshake) { return handshake->silent(); });
    if (victim == waiting_.end()) {
      victim = waiting_.begin();
      if (Loop::Clock::now() - (*victim)->began() < limits_.handshake / 5) return false;
    }
    const std::shared_ptr<Handshake> handshake = *victim;
    waiting_.erase(victim);
    const std::string address = handshake->stream()->peer();
    handshake->refuse(Reason::kTooBusy);
    refused(address, refusal_found(Reason::kTooBusy, 0));
    return true;
  }

  void refused(const std::string& address, const Error& why) {
    if (handler_.on_refused) handler_.on_refused(address, why);
  }

  Loop& loop_;
  Descriptor socket_;
  const Endpoint local_;
  const Security security_;
  const std::shared_ptr<Tls> tls_;
  const Limits limits_;
  const Handler handler_;
  Watch watch_;
  Timer pause_;
  Handshakes waiting_;  // Oldest first.
  bool stopped_ = false;
  bool out_of_descriptors_ = false;
};

Result<std::unique_ptr<Listener>> Listener::create(Loop& loop, const Endpoint& endpoint,
                                                   const Security& security, const Limits& limits,
                                                   Handler handler) {
  TANDEM_ASSIGN(auto tls, load_tls(security.tls));
  TANDEM_ASSIGN(auto socket, bind_to(endpoint, security));
  auto state = std::make_shared<State>(loop, std::move(socket), security, std::move(tls), limits,
                                       std::move(handler));
  TANDEM_TRY(state->start());
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

Listener::Listener(std::shared_ptr<State> state) : state_(std::move(state)) {}
Listener::~Listener() {
  state_->stop();
}

const std::string& Listener::host() const {
  return state_->local().host;
}
std::uint16_t Listener::port() const {
  return state_->local().port;
}
std::size_t Listener::waiting() const {
  return state_->waiting();
}

}  // namespace tandem::net
