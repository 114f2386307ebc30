#include "net/handshake.h"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace tandem::net {

Handshake::Handshake(Loop& loop, std::shared_ptr<Stream> stream, Role role,
                     const std::optional<Secret>& secret)
    : loop_(loop), stream_(std::move(stream)), role_(role), secret_(secret.value_or(Secret{})) {}

void Handshake::start(std::chrono::milliseconds patience, Done done) {
  done_ = std::move(done);
  deadline_ = loop_.after(patience, [this, patience] {
    fail(Error(Code::kTimeout,
               fmt::format("the handshake did not end within {} ms; the peer {}", patience.count(),
                           silent() ? "said nothing" : "stopped in the middle")));
  });
  auto greeter = Greeter::create(role_, secret_);
  if (!greeter.ok()) {
    loop_.post(
        [self = shared_from_this(), error = std::move(greeter).error()] { self->fail(error); });
    return;
  }
  greeter_ = std::move(greeter).value();
  stream_->open([self = shared_from_this()](Status status) {
    if (!status.ok()) return self->fail(std::move(status).error());
    self->take(self->greeter_->begin());
  });
}

void Handshake::refuse(Reason reason) {
  done_ = nullptr;
  deadline_.cancel();
  if (!output_.empty()) return stream_->close();
  const HelloBytes answer = encode(Answer{reason, {}});
  stream_->close_with({answer.data(), answer.size()});
}

void Handshake::cancel() {
  done_ = nullptr;
  deadline_.cancel();
  stream_->close();
}

void Handshake::take(Greeter::Turn turn) {
  output_ = std::move(turn.send);
  flush([this, end = std::move(turn.end)] {
    if (!end) {
      receive();
    } else if (end->ok()) {
      finish(*end);
    } else {
      fail(end->error());
    }
  });
}

void Handshake::receive() {
  // Never more than the message that is due: what a stranger sends beyond it stays in the kernel.
  stream_->read(kHelloBytes - input_.size(),
                [self = shared_from_this()](Result<std::string_view> bytes) {
                  if (self->done_ == nullptr) return;
                  if (!bytes.ok()) return self->fail(std::move(bytes).error());
                  self->silent_ = false;
                  self->input_.append(*bytes);
                  if (self->input_.size() < kHelloBytes) return self->receive();
                  self->take(self->greeter_->take(std::exchange(self->input_, {})));
                });
}

void Handshake::flush(std::function<void()> next) {
  if (output_.empty()) return next();
  const std::string_view piece(output_);
  stream_->write(std::span(&piece, 1),
                 [self = shared_from_this(), next = std::move(next)](Result<std::size_t> sent) {
                   if (self->done_ == nullptr) return;
                   if (!sent.ok()) return self->fail(std::move(sent).error());
                   self->output_.erase(0, *sent);
                   self->flush(next);
                 });
}

void Handshake::fail(Error error) {
  stream_->close();
  finish(std::move(error));
}

void Handshake::finish(Result<Keys> result) {
  deadline_.cancel();
  if (done_ != nullptr) std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace tandem::net
