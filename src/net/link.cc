#include "net/link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <random>
#include <utility>

#include "net/connect.h"
#include "net/handshake.h"
#include "net/stream.h"
#include "net/stream_channel.h"

namespace tandem::net {
class Link::State : public std::enable_shared_from_this<Link::State> {
 public:
  State(Loop& loop, const Endpoint& endpoint, const Security& security, std::shared_ptr<Tls> tls,
        const Limits& limits, Handler handler)
      : loop_(loop),
        endpoint_(endpoint),
        security_(security),
        tls_(std::move(tls)),
        limits_(limits),
        handler_(std::move(handler)),
        backoff_(limits.backoff_first) {}

  void connect() {
    began_ = Loop::Clock::now();
    timer_ = loop_.after(limits_.handshake, [self = shared_from_this()] {
      self->connecting_.cancel();
      self->lost(Error(Code::kTimeout,
                       fmt::format("connect to {}: no answer within {} ms",
                                   to_string(self->endpoint_), self->limits_.handshake.count())));
    });
    connecting_ = Connecting(loop_, endpoint_,
                             security_.secret.has_value() ? Reach::kAnywhere : Reach::kLoopback,
                             [self = shared_from_this()](Result<Descriptor> socket) {
                               self->timer_.cancel();
                               if (!socket.ok()) return self->lost(std::move(socket).error());
                               self->greet(std::move(*socket));
                             });
  }

  void stop() {
    stopped_ = true;
    timer_.cancel();
    connecting_.cancel();
    if (handshake_ != nullptr) std::exchange(handshake_, nullptr)->cancel();
    channel_.reset();
  }

  Channel* channel() { return channel_.get(); }

 private:
  void greet(Descriptor socket) {
    auto stream = make_stream(loop_, std::move(socket), Role::kConnects, tls_);
    handshake_ = std::make_shared<Handshake>(loop_, stream, Role::kConnects, security_.secret);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(began_ + limits_.handshake -
                                                                   Loop::Clock::now());
    handshake_->start(left, [self = shared_from_this(), stream](Result<Keys> keys) {
      self->handshake_ = nullptr;
      if (!keys.ok()) {
        return self->lost(
            std::move(keys).error().within(fmt::format("greet {}", to_string(self->endpoint_))));
      }
      self->up(make_channel(self->loop_, stream, *keys, self->limits_));
    });
  }

  void up(std::unique_ptr<Channel> channel) {
    const auto self = shared_from_this();
    backoff_ = limits_.backoff_first;
    channel_ = std::move(channel);
    channel_->start({
        .on_message = [self](
                          std::uint16_t kind,
                          std::string bytes) { self->handler_.on_message(kind, std::move(bytes)); },
        .on_closed = [self](Error why) { self->lost(std::move(why)); },
        .on_drained =
            [self] {
              if (self->handler_.on_drained) self->handler_.on_drained();
            },
    });
    handler_.on_up(*channel_);
  }

  void lost(Error why) {
    const bool hopeless = why.code() == Code::kDenied || why.code() == Code::kVersionMismatch;
    const auto pause = hopeless ? limits_.backoff_most : backoff_;
    backoff_ = std::min(2 * backoff_, limits_.backoff_most);
    const auto shortened = std::chrono::duration_cast<Loop::Clock::duration>(
        pause * std::uniform_real_distribution<double>(0.75, 1.0)(random_));
    timer_ = loop_.after(shortened, [self = shared_from_this()] { self->connect(); });
    // The callback may stop the link, and with it the timer.
    handler_.on_down(why);
    if (!stopped_) channel_.reset();
  }

  Loop& loop_;
  const Endpoint endpoint_;
  const Security security_;
  const std::shared_ptr<Tls> tls_;
  const Limits limits_;
  const Handler handler_;
  std::chrono::milliseconds backoff_;
  Loop::Clock::time_point began_;  // The attempt.
  std::minstd_rand random_{std::random_device{}()};
  Timer timer_;  // The deadline of the attempt, or the pause before the next.
  Connecting connecting_;
  std::shared_ptr<Handshake> handshake_;
  std::unique_ptr<Channel> channel_;
  bool stopped_ = false;
};

Result<std::unique_ptr<Link>> Link::create(Loop& loop, const Endpoint& endpoint,
                                           const Security& security, const Limits& limits,
                                           Handler handler) {
  if (!security.secret.has_value() && is_remote(endpoint.host)) return needs_secret(endpoint);
  TANDEM_ASSIGN(auto tls, load_tls(security.tls));
  auto state =
      std::make_shared<State>(loop, endpoint, security, std::move(tls), limits, std::move(handler));
  state->connect();
  return std::unique_ptr<Link>(new Link(std::move(state)));
}

Link::Link(std::shared_ptr<State> state) : state_(std::move(state)) {}
Link::~Link() {
  stop();
}

Channel* Link::channel() {
  return state_->channel();
}
void Link::stop() {
  state_->stop();
}

}  // namespace tandem::net
