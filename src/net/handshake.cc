#include "net/handshake.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "net/frame.h"

namespace tandem::net {
namespace {

std::string_view view(const HelloBytes& bytes) {
  return {bytes.data(), bytes.size()};
}

std::string text(const Answer& answer) {
  return std::string(view(encode(answer)));
}

}  // namespace

Handshake::Handshake(Loop& loop, std::shared_ptr<Stream> stream, Role role,
                     const std::optional<Secret>& secret)
    : loop_(loop), stream_(std::move(stream)), role_(role), secret_(secret.value_or(Secret{})) {}

void Handshake::start(std::chrono::milliseconds patience, Done done) {
  done_ = std::move(done);
  deadline_ = loop_.after(patience, [this, patience] {
    fail(Error(Code::kTimeout,
               fmt::format("the handshake did not end within {} ms; the peer {}", patience.count(),
                           silent_ ? "said nothing" : "stopped in the middle")));
  });
  Hello hello{kVersion, role_, {}};
  if (Status status = fill_random(hello.nonce); !status.ok()) {
    loop_.post(
        [self = shared_from_this(), error = std::move(status).error()] { self->fail(error); });
    return;
  }
  our_hello_ = encode(hello);
  stream_->open([self = shared_from_this()](Status status) {
    if (!status.ok()) return self->fail(std::move(status).error());
    self->open();
  });
}

void Handshake::open() {
  if (role_ == Role::kListens) return expect(&Handshake::take_hello_of_who_connects);
  send(std::string(view(our_hello_)), [this] { expect(&Handshake::take_hello_of_who_listens); });
}

void Handshake::refuse(Reason reason) {
  done_ = nullptr;
  deadline_.cancel();
  if (!output_.empty()) return stream_->close();
  stream_->close_with(text(Answer{reason, {}}));
}

void Handshake::cancel() {
  done_ = nullptr;
  deadline_.cancel();
  stream_->close();
}

void Handshake::expect(Next next) {
  next_ = next;
  input_.clear();
  receive();
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
                  const std::string message = std::exchange(self->input_, {});
                  (*self.*self->next_)(message);
                });
}

void Handshake::send(std::string bytes, std::function<void()> next) {
  output_ = std::move(bytes);
  flush(std::move(next));
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

void Handshake::take_hello_of_who_connects(std::string_view message) {
  const auto hello = parse_hello(message, Role::kConnects);
  // No words for a stranger who does not speak the language.
  if (!hello.ok()) return fail(hello.error());
  learn(message, *hello);
  if (hello->version != kVersion)
    return reject(Reason::kOtherVersion, std::string(view(our_hello_)));
  send(std::string(view(our_hello_)), [this] { expect(&Handshake::take_proof_of_who_connects); });
}

void Handshake::take_hello_of_who_listens(std::string_view message) {
  if (is_answer(message)) {
    const auto answer = parse_answer(message);
    return fail(answer.ok() ? refusal_told(answer->reason) : answer.error());
  }
  const auto hello = parse_hello(message, Role::kListens);
  if (!hello.ok()) return fail(hello.error());
  learn(message, *hello);
  if (hello->version != kVersion) return reject(Reason::kOtherVersion);
  send(text(Answer{Reason::kNone, proof(Role::kConnects)}),
       [this] { expect(&Handshake::take_proof_of_who_listens); });
}

void Handshake::take_proof_of_who_connects(std::string_view message) {
  const auto answer = parse_answer(message);
  if (!answer.ok()) return fail(answer.error());
  if (answer->reason != Reason::kNone) return fail(refusal_told(answer->reason));
  const Digest expected = proof(Role::kConnects);
  if (!same_bytes({answer->proof.data(), answer->proof.size()}, {expected.data(), expected.size()}))
    return reject(Reason::kWrongSecret);
  send(text(Answer{Reason::kNone, proof(Role::kListens)}), [this] {
    finish(Keys{derive_key(secret_.view(), nonces_, "tandem frames listens"),
                derive_key(secret_.view(), nonces_, "tandem frames connects")});
  });
}

void Handshake::take_proof_of_who_listens(std::string_view message) {
  const auto answer = parse_answer(message);
  if (!answer.ok()) return fail(answer.error());
  if (answer->reason != Reason::kNone) return fail(refusal_told(answer->reason));
  const Digest expected = proof(Role::kListens);
  // An impostor took our proof without being able to check it; it gets no more of us.
  if (!same_bytes({answer->proof.data(), answer->proof.size()}, {expected.data(), expected.size()}))
    return fail(refusal_found(Reason::kWrongSecret, their_version_));
  finish(Keys{derive_key(secret_.view(), nonces_, "tandem frames connects"),
              derive_key(secret_.view(), nonces_, "tandem frames listens")});
}

void Handshake::learn(std::string_view their_hello, const Hello& hello) {
  their_version_ = hello.version;
  const std::string_view ours = view(our_hello_);
  hellos_ = role_ == Role::kConnects ? std::string(ours).append(their_hello)
                                     : std::string(their_hello).append(ours);
  constexpr std::size_t kNonceOffset = 8;
  nonces_ = hellos_.substr(kNonceOffset, hello.nonce.size()) +
            hellos_.substr(kHelloBytes + kNonceOffset, hello.nonce.size());
}

Digest Handshake::proof(Role role) const {
  const std::string purpose = fmt::format("tandem proof {}", to_string(role));
  return Mac(derive_key(secret_.view(), nonces_, purpose)).of(hellos_);
}

void Handshake::reject(Reason reason, std::string before) {
  send(std::move(before) + text(Answer{reason, {}}),
       [this, reason] { fail(refusal_found(reason, their_version_)); });
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
