// The handshake of a new connection: both sides prove that they know the cluster's secret before
// anything else of theirs is looked at. net/hello.h has the messages and the reasoning. Owned by
// the Listener or Link that made it; belongs to the thread of its Loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto.h"
#include "net/hello.h"
#include "net/loop.h"
#include "net/secret.h"
#include "net/stream.h"

namespace tandem::net {

// The keys of a connection's two directions.
struct Keys {
  Key sends;
  Key receives;
};

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
  bool silent() const { return silent_; }
  Loop::Clock::time_point began() const { return began_; }
  const std::shared_ptr<Stream>& stream() const { return stream_; }

 private:
  using Next = void (Handshake::*)(std::string_view message);

  void open();
  void expect(Next next);
  void receive();
  void send(std::string bytes, std::function<void()> next);
  void flush(std::function<void()> next);
  void take_hello_of_who_connects(std::string_view message);
  void take_hello_of_who_listens(std::string_view message);
  void take_proof_of_who_connects(std::string_view message);
  void take_proof_of_who_listens(std::string_view message);
  void learn(std::string_view their_hello, const Hello& hello);
  Digest proof(Role role) const;
  // Tells the peer, then fails.
  void reject(Reason reason, std::string before = {});
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

  Next next_ = nullptr;
  std::string input_;
  std::string output_;
  HelloBytes our_hello_{};
  std::string nonces_;  // Of who connects, then of who listens.
  std::string hellos_;  // Likewise.
  std::uint16_t their_version_ = 0;
};

}  // namespace tandem::net
