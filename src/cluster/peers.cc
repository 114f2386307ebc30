#include "cluster/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cluster/remote.h"
#include "net/address.h"

namespace tandem::cluster {
namespace {

constexpr int kMostSlots = 4096;
constexpr std::chrono::seconds kHelloTime{5};

}  // namespace

class Peers::State {
 public:
  State(net::Loop& loop, std::string version, Handler handler)
      : loop_(loop), version_(std::move(version)), handler_(std::move(handler)) {}

  Status listen(const net::Endpoint& endpoint, const net::Security& security,
                const net::Limits& limits) {
    net::Listener::Handler handler;
    handler.on_channel = [this](std::unique_ptr<net::Channel> channel) {
      accept(std::move(channel));
    };
    handler.on_refused = [this](const std::string& address, const Error& why) {
      ++refused_;
      log_refusal(address, why);
    };
    TANDEM_ASSIGN(listener_,
                  net::Listener::create(loop_, endpoint, security, limits, std::move(handler)));
    return {};
  }

  const net::Listener& listener() const { return *listener_; }
  std::uint64_t refused() const { return refused_; }

  void send(NodeId node, const wire::MasterMessage& message) {
    const auto found = peers_.find(node);
    if (found == peers_.end()) return;
    const Status status = found->second.channel->send(kFromMaster, message.SerializeAsString());
    if (!status.ok()) refuse(node, status.error());
  }

  // The channel may be the one whose callback is running, so it goes later.
  void refuse(NodeId node, const Error& why) {
    loop_.post([this, node, why] { lose(node, why); });
  }

  void for_each(
      const std::function<void(NodeId, const wire::NodeHello&, const std::string&)>& visit) const {
    for (const auto& [node, peer] : peers_) {
      if (peer.hello) visit(node, *peer.hello, peer.channel->peer());
    }
  }

 private:
  struct Peer {
    std::unique_ptr<net::Channel> channel;
    std::optional<wire::NodeHello> hello;
    net::Timer hello_deadline;
  };

  void accept(std::unique_ptr<net::Channel> channel) {
    const NodeId node = next_node_++;
    Peer& peer = peers_[node];
    peer.channel = std::move(channel);
    peer.hello_deadline = loop_.after(kHelloTime, [this, node] {
      refuse(node, Error(Code::kTimeout, "it did not say who it is"));
    });
    net::Channel::Handler handler;
    handler.on_message = [this, node](std::uint16_t kind, const std::string& bytes) {
      heard(node, kind, bytes);
    };
    handler.on_closed = [this, node](const Error& why) { refuse(node, why); };
    peer.channel->start(std::move(handler));
  }

  void heard(NodeId node, std::uint16_t kind, const std::string& bytes) {
    const auto found = peers_.find(node);
    if (found == peers_.end()) return;
    const auto message = parse_node_message(bytes);
    if (kind != kFromNode || !message.ok())
      return refuse(node, Error(Code::kCorrupt, "it sent what is no message of a node"));
    if (!message->has_hello()) {
      if (found->second.hello) handler_.on_message(node, *message);
      return;
    }
    const wire::NodeHello& hello = message->hello();
    if (found->second.hello || hello.slots() < 1 || hello.slots() > kMostSlots ||
        !is_node_name(hello.name()))
      return refuse(node, Error(Code::kCorrupt, "its greeting makes no sense"));
    if (hello.version() != version_) {
      return refuse(node, Error(Code::kVersionMismatch,
                                fmt::format("it has Tandem {}, the master has {}; install the same "
                                            "version on both",
                                            hello.version(), version_)));
    }
    found->second.hello_deadline.cancel();
    wire::NodeHello named = hello;
    named.set_name(unused_name(hello.name()));
    found->second.hello = named;
    handler_.on_node(node, named);
  }

  // Two machines may have the same name, and one that was cut off may come back before it is
  // missed.
  std::string unused_name(const std::string& wanted) const {
    std::string name = wanted;
    const auto is_used = [&](const auto& peer) {
      return peer.second.hello && peer.second.hello->name() == name;
    };
    for (int number = 2; std::any_of(peers_.begin(), peers_.end(), is_used); ++number)
      name = fmt::format("{}-{}", wanted, number);
    return name;
  }

  void lose(NodeId node, const Error& why) {
    const auto found = peers_.find(node);
    if (found == peers_.end()) return;
    Peer peer = std::move(found->second);
    peers_.erase(found);
    if (peer.hello) {
      handler_.on_lost(node, peer.hello->name(), why);
    } else {
      log_refusal(peer.channel->peer(), why);
    }
  }

  // Whoever connects decides how often this comes, so only some are told of.
  void log_refusal(const std::string& address, const Error& why) {
    constexpr std::chrono::seconds kSpan{1};
    constexpr int kMost = 5;
    const auto now = net::Loop::Clock::now();
    if (now - span_began_ >= kSpan) {
      tell_the_rest();
      span_began_ = now;
      told_ = 0;
    }
    if (told_ == kMost) {
      // Perhaps nobody else comes who could be told of together with them.
      if (untold_++ == 0) rest_ = loop_.after(kSpan, [this] { tell_the_rest(); });
      return;
    }
    ++told_;
    handler_.log(fmt::format("refused {}: {}", address, why.message()));
  }

  void tell_the_rest() {
    rest_.cancel();
    if (untold_ > 0) handler_.log(fmt::format("{} more were refused", std::exchange(untold_, 0)));
  }

  net::Loop& loop_;
  const std::string version_;
  const Handler handler_;
  std::map<NodeId, Peer> peers_;
  NodeId next_node_ = 1;
  std::uint64_t refused_ = 0;
  net::Loop::Clock::time_point span_began_{};
  int told_ = 0, untold_ = 0;
  net::Timer rest_;
  std::unique_ptr<net::Listener> listener_;
};

Result<std::unique_ptr<Peers>> Peers::create(net::Loop& loop, const net::Endpoint& listen,
                                             const net::Security& security,
                                             const net::Limits& limits, const std::string& version,
                                             Handler handler) {
  auto state = std::make_unique<State>(loop, version, std::move(handler));
  TANDEM_TRY(state->listen(listen, security, limits));
  return std::unique_ptr<Peers>(new Peers(std::move(state)));
}

Peers::Peers(std::unique_ptr<State> state) : state_(std::move(state)) {}
Peers::~Peers() = default;

std::uint16_t Peers::port() const {
  return state_->listener().port();
}
std::string Peers::serve_at() const {
  const std::string& host = state_->listener().host();
  return net::is_loopback(host) ? host : "";
}
void Peers::send(NodeId node, const wire::MasterMessage& message) {
  state_->send(node, message);
}
void Peers::refuse(NodeId node, const Error& why) {
  state_->refuse(node, why);
}
void Peers::for_each(
    const std::function<void(NodeId, const wire::NodeHello&, const std::string&)>& visit) const {
  state_->for_each(visit);
}
std::string Peers::host_of(NodeId node) const {
  std::string host;
  for_each([&](NodeId each, const wire::NodeHello&, const std::string& address) {
    if (each != node) return;
    host = address.substr(0, address.rfind(':'));
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  });
  return net::is_loopback(host) ? "" : host;
}
std::uint64_t Peers::refused() const {
  return state_->refused();
}

}  // namespace tandem::cluster
