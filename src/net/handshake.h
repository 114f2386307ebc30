// The handshake of a new connection: both sides prove that they know the cluster's secret before
// anything else of theirs is looked at (net/greeter.h). Owned by the Listener or Link that made it;
// belongs to the thread of its Loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/greeter.h"
#include "net/loop.h"
#include "net/secret.h"
#include "net/stream.h"

namespace tandem::net {

class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  using Done = std::function<void(Result<Keys>)>;

  Handshake(Loop& loop, std::shared_ptr<Stream> stream, Role role,
            const std::optional<Secret>& secret);

  // Calls back once. After an error the stream is closed; the peer has been told why, where there
  // are words for it.
  void start(std::chrono::milliseconds patience, Done done);

  // Tells the peer why, as far as that goes without waiting, and gives up: no callback comes. It
  // need not have been started.
  void refuse(Reason reason);

  // Closes the stream; no callback comes.
  void cancel();

  // Whether not a byte came so far.
  bool silent() const { return silent_ && !stream_->has_heard(); }
  Loop::Clock::time_point began() const { return began_; }
  const std::shared_ptr<Stream>& stream() const { return stream_; }

 private:
  void take(Greeter::Turn turn);
  void receive();
  void flush(std::function<void()> next);
  void fail(Error error);
  void finish(Result<Keys> result);

  Loop& loop_;
  const std::shared_ptr<Stream> stream_;
  const Role role_;
  const Secret secret_;
  const Loop::Clock::time_point began_ = Loop::Clock::now();
  Timer deadline_;
  Done done_;
  bool silent_ = true;

  std::optional<Greeter> greeter_;
  std::string input_;
  std::string output_;
};

}  // namespace tandem::net
