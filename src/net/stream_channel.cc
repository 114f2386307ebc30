#include "net/stream_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "net/frame.h"
#include "net/pulse.h"

namespace tandem::net {
namespace {

constexpr std::size_t kAllThereIs = std::size_t{1} << 30;

// Everything of a channel that callbacks under way may still touch after its owner let go of it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Loop& loop, std::shared_ptr<Stream> stream, const Keys& keys, const Limits& limits)
      : loop_(loop),
        limits_(limits),
        stream_(std::move(stream)),
        sends_(keys.sends),
        receives_(keys.receives),
        reader_(limits.message_bytes),
        pulse_(limits, Loop::Clock::now()) {}

  void start(Channel::Handler handler) {
    TANDEM_CHECK(handler_ == nullptr);
    handler_ = std::make_shared<const Channel::Handler>(std::move(handler));
    pulse_ = Pulse(limits_, Loop::Clock::now());
    if (state_ == State::kClosed) return tell_closed();
    read();
    wait_for_pulse();
  }

  Status send(std::uint16_t kind, std::string bytes) {
    TANDEM_CHECK(kind < kFirstReservedKind);
    if (state_ != State::kOpen) return Error(Code::kPeerLost, "the channel is closed");
    if (bytes.size() > limits_.message_bytes) {
      return Error(Code::kInvalidArgument,
                   fmt::format("a message of {} bytes to {}; at most {} are allowed", bytes.size(),
                               stream_->peer(), limits_.message_bytes));
    }
    if (queued_bytes_ + kHeaderBytes + bytes.size() > limits_.queue_bytes) {
      refused_ = true;
      return Error(Code::kOutOfSpace,
                   fmt::format("{} bytes wait for {} already, which reads too slowly",
                               queued_bytes_, stream_->peer()));
    }
    queue(kind, std::move(bytes));
    return {};
  }

  void close(Closing closing) {
    if (state_ == State::kClosed) return;
    // Who has not started does not read, and so cannot wait for the peer's end.
    if (closing == Closing::kNow || handler_ == nullptr) return end(closed_here());
    if (state_ == State::kClosing) return;
    state_ = State::kClosing;
    last_words_ = loop_.after(limits_.silence, [self = shared_from_this()] {
      self->end(Error(Code::kTimeout, "the peer did not take the last messages"));
    });
    if (queue_.empty()) stream_->finish();
  }

  // The owner is gone: no callbacks.
  void abandon() {
    state_ = State::kClosed;
    handler_ = nullptr;
    stop();
  }

  std::size_t queued_bytes() const { return queued_bytes_; }
  const std::string& peer() const { return stream_->peer(); }

 private:
  enum class State { kOpen, kClosing, kClosed };

  static Error closed_here() { return Error(Code::kCancelled, "this side closed the channel"); }

  void queue(std::uint16_t kind, std::string bytes) {
    Frame frame = make_frame(kind, std::move(bytes), counter_++);
    const Digest code = sends_.of(frame.tagged_header(), frame.payload);
    std::memcpy(frame.header.data() + kTaggedHeaderBytes, code.data(), kTagBytes);
    queued_bytes_ += kHeaderBytes + frame.payload.size();
    queue_.push_back(std::move(frame));
    if (!writing_) write();
  }

  void write() {
    std::array<std::string_view, 16> pieces;
    std::size_t used = 0;
    std::size_t skip = sent_of_first_;
    const auto add = [&](std::string_view piece) {
      const std::size_t skipped = std::min(skip, piece.size());
      skip -= skipped;
      if (skipped < piece.size()) pieces[used++] = piece.substr(skipped);
    };
    for (const Frame& frame : queue_) {
      if (used + 2 > pieces.size()) break;
      add({frame.header.data(), frame.header.size()});
      add(frame.payload);
    }
    writing_ = true;
    stream_->write(std::span(pieces).first(used),
                   [self = shared_from_this()](Result<std::size_t> sent) {
                     self->writing_ = false;
                     if (self->state_ == State::kClosed) return;
                     if (!sent.ok()) return self->end(std::move(sent).error());
                     self->wrote(*sent);
                   });
  }

  void wrote(std::size_t sent) {
    pulse_.sent(Loop::Clock::now());
    queued_bytes_ -= sent;
    sent += std::exchange(sent_of_first_, 0);
    while (!queue_.empty() && sent >= kHeaderBytes + queue_.front().payload.size()) {
      sent -= kHeaderBytes + queue_.front().payload.size();
      queue_.pop_front();
    }
    sent_of_first_ = sent;
    if (!queue_.empty()) return write();
    // To close now would throw away what the kernel has not sent yet, if the peer has sent anything
    // that was not read; so this waits until the peer has closed, too.
    if (state_ == State::kClosing) return stream_->finish();
    if (std::exchange(refused_, false) && handler_ != nullptr && handler_->on_drained) {
      const auto handler = handler_;
      handler->on_drained();
    }
  }

  void read() {
    stream_->read(kAllThereIs, [self = shared_from_this()](Result<std::string_view> bytes) {
      if (self->state_ == State::kClosed) return;
      if (!bytes.ok()) {
        const bool done = self->state_ == State::kClosing && self->queue_.empty();
        return self->end(done ? closed_here() : std::move(bytes).error());
      }
      self->pulse_.received(Loop::Clock::now());
      if (Status status = self->take(*bytes); !status.ok())
        return self->end(std::move(status).error());
      if (self->state_ != State::kClosed) self->read();
    });
  }

  Status take(std::string_view bytes) {
    while (state_ != State::kClosed && !bytes.empty()) {
      TANDEM_ASSIGN(auto frame, reader_.next(bytes));
      if (!frame.has_value()) break;
      const Digest code = receives_.of(frame->tagged_header(), frame->payload);
      if (!same_bytes(frame->tag(), {code.data(), kTagBytes})) {
        return Error(Code::kCorrupt,
                     "a frame's tag is wrong: it was changed on its way, or made by somebody else");
      }
      if (frame->kind == kBeat || state_ != State::kOpen) continue;
      // Held here, because the handler may destroy the channel.
      const auto handler = handler_;
      handler->on_message(frame->kind, std::move(frame->payload));
    }
    return {};
  }

  void wait_for_pulse() {
    timer_ = loop_.after(pulse_.due() - Loop::Clock::now(), [this] {
      switch (pulse_.check(Loop::Clock::now())) {
        case Pulse::Verdict::kDead:
          return end(Error(Code::kTimeout, fmt::format("nothing was heard of {} for {} ms", peer(),
                                                       limits_.silence.count())));
        case Pulse::Verdict::kSendBeat:
          // What is queued shows as well that this side lives, once the peer reads it.
          if (queue_.empty() && state_ == State::kOpen) queue(kBeat, {});
          break;
        case Pulse::Verdict::kNothing:
          break;
      }
      wait_for_pulse();
    });
  }

  void end(Error why) {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    stop();
    why_ = std::move(why);
    if (handler_ != nullptr) tell_closed();
  }

  void tell_closed() {
    // From the loop, so that it never comes from inside the owner's own call.
    loop_.post([self = shared_from_this()] {
      if (const auto handler = std::exchange(self->handler_, nullptr); handler != nullptr)
        handler->on_closed(std::move(*self->why_));
    });
  }

  void stop() {
    stream_->close();
    timer_.cancel();
    last_words_.cancel();
    queued_bytes_ = 0;
    if (!writing_) queue_.clear();  // A write under way may still look at them.
  }

  Loop& loop_;
  const Limits limits_;
  const std::shared_ptr<Stream> stream_;
  State state_ = State::kOpen;
  std::shared_ptr<const Channel::Handler> handler_;
  std::optional<Error> why_;

  Mac sends_;
  std::uint64_t counter_ = 0;
  std::deque<Frame> queue_;
  std::size_t queued_bytes_ = 0;
  std::size_t sent_of_first_ = 0;
  bool writing_ = false;
  bool refused_ = false;  // A send() was, since the queue was empty.

  Mac receives_;
  FrameReader reader_;

  Pulse pulse_;
  Timer timer_;
  Timer last_words_;
};

class StreamChannel final : public Channel {
 public:
  explicit StreamChannel(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~StreamChannel() override { session_->abandon(); }

  void start(Handler handler) override { session_->start(std::move(handler)); }
  Status send(std::uint16_t kind, std::string bytes) override {
    return session_->send(kind, std::move(bytes));
  }
  std::size_t queued_bytes() const override { return session_->queued_bytes(); }
  void close(Closing closing) override { session_->close(closing); }
  const std::string& peer() const override { return session_->peer(); }

 private:
  const std::shared_ptr<Session> session_;
};

}  // namespace

std::unique_ptr<Channel> make_channel(Loop& loop, std::shared_ptr<Stream> stream, const Keys& keys,
                                      const Limits& limits) {
  return std::make_unique<StreamChannel>(
      std::make_shared<Session>(loop, std::move(stream), keys, limits));
}

}  // namespace tandem::net
