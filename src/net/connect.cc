#include "net/connect.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <utility>
#include <vector>

namespace tandem::net {

using asio::ip::tcp;

class Connecting::State : public std::enable_shared_from_this<Connecting::State> {
 public:
  State(Loop& loop, const Endpoint& endpoint, Reach reach, Done done)
      : endpoint_(endpoint),
        reach_(reach),
        done_(std::move(done)),
        resolver_(loop.context()),
        socket_(loop.context()),
        loop_(loop) {}

  void start() {
    asio::error_code no_address;
    const auto address = asio::ip::make_address(endpoint_.host, no_address);
    if (!no_address) {
      const std::vector<tcp::endpoint> only{tcp::endpoint(address, endpoint_.port)};
      // Posted, so that the callback never comes from inside the constructor.
      loop_.post([self = shared_from_this(), only] { self->connect(only); });
      return;
    }
    resolver_.async_resolve(
        endpoint_.host, std::to_string(endpoint_.port),
        [self = shared_from_this()](const asio::error_code& error,
                                    const tcp::resolver::results_type& found) {
          if (error) {
            return self->finish(
                Error(Code::kNotFound,
                      fmt::format("look up `{}`: {}", self->endpoint_.host, error.message())));
          }
          self->connect(std::vector<tcp::endpoint>(found.begin(), found.end()));
        });
  }

  void cancel() {
    done_ = nullptr;
    resolver_.cancel();
    asio::error_code ignored;
    socket_.close(ignored);
  }

 private:
  void connect(std::vector<tcp::endpoint> candidates) {
    if (done_ == nullptr) return;
    if (reach_ == Reach::kLoopback) {
      std::erase_if(candidates, [](const tcp::endpoint& e) { return !is_loopback(e.data()); });
      if (candidates.empty()) return finish(needs_secret(endpoint_));
    }
    asio::async_connect(socket_, candidates,
                        [self = shared_from_this()](const asio::error_code& error,
                                                    const tcp::endpoint&) { self->check(error); });
  }

  void check(const asio::error_code& failure) {
    if (done_ == nullptr) return;
    const std::string doing = "connect to " + to_string(endpoint_);
    if (failure) {
      const Code code = failure == asio::error::timed_out ? Code::kTimeout : Code::kPeerLost;
      return finish(Error(code, fmt::format("{}: {}", doing, failure.message())));
    }
    asio::error_code error;
    // Where nobody listens on a port of this host, the kernel may give that very port to the
    // connecting socket, which then talks to itself and keeps the listener from coming back.
    const bool itself = socket_.local_endpoint(error) == socket_.remote_endpoint(error);
    if (itself || error) {
      socket_.close(error);
      return finish(Error(Code::kPeerLost, doing + ": nobody listens there"));
    }
    Descriptor connected(socket_.release(error));
    if (error) return finish(Error(Code::kInternal, fmt::format("{}: {}", doing, error.message())));
    finish(std::move(connected));
  }

  void finish(Result<Descriptor> result) {
    if (done_ != nullptr) std::exchange(done_, nullptr)(std::move(result));
  }

  const Endpoint endpoint_;
  const Reach reach_;
  Done done_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  Loop& loop_;
};

Connecting::Connecting(Loop& loop, const Endpoint& endpoint, Reach reach, Done done)
    : state_(std::make_shared<State>(loop, endpoint, reach, std::move(done))) {
  state_->start();
}

Connecting& Connecting::operator=(Connecting&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Connecting::cancel() {
  if (auto state = std::exchange(state_, nullptr)) state->cancel();
}

}  // namespace tandem::net
