#include "net/memory.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "net/frame.h"
#include "net/pulse.h"

namespace tandem::net {
namespace {

// One side of the pair. It holds what was sent to the other side until it arrives there.
class End : public std::enable_shared_from_this<End> {
 public:
  End(Loop& loop, const Limits& limits, Side side, std::shared_ptr<const Hook> hook)
      : loop_(loop),
        limits_(limits),
        side_(side),
        hook_(std::move(hook)),
        name_(side == Side::kFirst ? "memory:second" : "memory:first"),
        pulse_(limits, Loop::Clock::now()) {}

  void join(const std::shared_ptr<End>& other) { other_ = other; }

  void start(Channel::Handler handler) {
    TANDEM_CHECK(handler_ == nullptr);
    handler_ = std::make_shared<const Channel::Handler>(std::move(handler));
    pulse_ = Pulse(limits_, Loop::Clock::now());
    if (closed_) return tell_closed();
    wait_for_pulse();
    if (const auto other = other_.lock()) other->deliver();
  }

  Status send(std::uint16_t kind, std::string bytes) {
    if (closed_ || closing_) return Error(Code::kPeerLost, "the channel is closed");
    if (bytes.size() > limits_.message_bytes) {
      return Error(Code::kInvalidArgument,
                   fmt::format("a message of {} bytes; at most {} are allowed", bytes.size(),
                               limits_.message_bytes));
    }
    if (queued_bytes_ + kHeaderBytes + bytes.size() > limits_.queue_bytes) {
      refused_ = true;
      return Error(Code::kOutOfSpace, fmt::format("{} bytes wait already", queued_bytes_));
    }
    queue(kind, std::move(bytes));
    return {};
  }

  void close(Closing closing) {
    if (closing == Closing::kWhenSent && !queue_.empty() && !closed_)
      closing_ = true;
    else
      part(Error(Code::kCancelled, "this side closed the channel"));
  }

  void abandon() {
    handler_ = nullptr;
    part(Error(Code::kCancelled, "this side closed the channel"));
  }

  // Ends this side with `why`, and the other as one whose peer is gone.
  void part(Error why) {
    if (closed_) return;
    end(std::move(why));
    if (const auto other = other_.lock())
      other->end(Error(Code::kPeerLost, "the peer closed the connection"));
  }

  std::size_t queued_bytes() const { return queued_bytes_; }
  const std::string& peer() const { return name_; }

 private:
  struct Message {
    std::uint16_t kind;
    std::string bytes;
    Loop::Clock::time_point due;
  };

  void queue(std::uint16_t kind, std::string bytes) {
    const auto now = Loop::Clock::now();
    pulse_.sent(now);
    const Fate fate = *hook_ ? (*hook_)(side_, kind, bytes) : Fate{};
    if (fate.kind == Fate::Kind::kIsLost) return;
    if (fate.kind == Fate::Kind::kBreaksChannel)
      return part(Error(Code::kPeerLost, "the connection broke"));
    queued_bytes_ += kHeaderBytes + bytes.size();
    queue_.push_back({kind, std::move(bytes), now + fate.delay});
    if (queue_.size() == 1) deliver();
  }

  // Waits for the first message's time, then hands over all whose time has come.
  void deliver() {
    if (queue_.empty() || closed_) return;
    arrival_ = loop_.after(queue_.front().due - Loop::Clock::now(), [self = shared_from_this()] {
      const auto other = self->other_.lock();
      while (other != nullptr && other->handler_ != nullptr && !self->queue_.empty() &&
             self->queue_.front().due <= Loop::Clock::now()) {
        Message message = std::move(self->queue_.front());
        self->queue_.pop_front();
        self->queued_bytes_ -= kHeaderBytes + message.bytes.size();
        other->take(std::move(message));
      }
      if (other != nullptr && other->handler_ != nullptr) self->deliver();
      if (self->queue_.empty()) self->drained();
    });
  }

  void drained() {
    if (closing_) return part(Error(Code::kCancelled, "this side closed the channel"));
    if (const auto handler = handler_; std::exchange(refused_, false) && handler != nullptr)
      if (handler->on_drained) handler->on_drained();
  }

  void take(Message message) {
    if (closed_) return;
    pulse_.received(Loop::Clock::now());
    const auto handler = handler_;
    if (message.kind != kBeat && !closing_)
      handler->on_message(message.kind, std::move(message.bytes));
  }

  void wait_for_pulse() {
    timer_ = loop_.after(pulse_.due() - Loop::Clock::now(), [self = shared_from_this()] {
      const auto verdict = self->pulse_.check(Loop::Clock::now());
      if (verdict == Pulse::Verdict::kDead) {
        return self->part(
            Error(Code::kTimeout, fmt::format("nothing was heard of {} for {} ms", self->name_,
                                              self->limits_.silence.count())));
      }
      if (verdict == Pulse::Verdict::kSendBeat && self->queue_.empty()) self->queue(kBeat, {});
      if (!self->closed_) self->wait_for_pulse();
    });
  }

  void end(Error why) {
    if (closed_) return;
    closed_ = true;
    why_ = std::move(why);
    timer_.cancel();
    arrival_.cancel();
    queue_.clear();
    queued_bytes_ = 0;
    if (handler_ != nullptr) tell_closed();
  }

  void tell_closed() {
    loop_.post([self = shared_from_this()] {
      if (const auto handler = std::exchange(self->handler_, nullptr); handler != nullptr)
        handler->on_closed(std::move(*self->why_));
    });
  }

  Loop& loop_;
  const Limits limits_;
  const Side side_;
  const std::shared_ptr<const Hook> hook_;
  const std::string name_;  // The peer's.
  std::weak_ptr<End> other_;
  std::shared_ptr<const Channel::Handler> handler_;
  std::deque<Message> queue_;
  std::size_t queued_bytes_ = 0;
  bool refused_ = false;
  bool closing_ = false;
  bool closed_ = false;
  std::optional<Error> why_;
  Pulse pulse_;
  Timer timer_;
  Timer arrival_;
};

class MemoryChannel final : public Channel {
 public:
  explicit MemoryChannel(std::shared_ptr<End> end) : end_(std::move(end)) {}
  ~MemoryChannel() override { end_->abandon(); }

  void start(Handler handler) override { end_->start(std::move(handler)); }
  Status send(std::uint16_t kind, std::string bytes) override {
    TANDEM_CHECK(kind < kFirstReservedKind);
    return end_->send(kind, std::move(bytes));
  }
  std::size_t queued_bytes() const override { return end_->queued_bytes(); }
  void close(Closing closing) override { end_->close(closing); }
  const std::string& peer() const override { return end_->peer(); }

 private:
  const std::shared_ptr<End> end_;
};

}  // namespace

MemoryPair memory_pair(Loop& loop, const Limits& limits, Hook hook) {
  const auto shared = std::make_shared<const Hook>(std::move(hook));
  const auto first = std::make_shared<End>(loop, limits, Side::kFirst, shared);
  const auto second = std::make_shared<End>(loop, limits, Side::kSecond, shared);
  first->join(second);
  second->join(first);
  return {std::make_unique<MemoryChannel>(first), std::make_unique<MemoryChannel>(second),
          [cut = std::weak_ptr<End>(first)] {
            if (const auto end = cut.lock())
              end->part(Error(Code::kPeerLost, "the connection was cut"));
          }};
}

}  // namespace tandem::net
