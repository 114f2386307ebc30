#include "net/greeter.h"

#include <fmt/format.h>

#include <utility>

#include "net/frame.h"

namespace tandem::net {
namespace {

template <std::size_t size>
std::string_view view(const std::array<char, size>& bytes) {
  return {bytes.data(), bytes.size()};
}

std::string text(const Answer& answer) {
  return std::string(view(encode(answer)));
}

Role other(Role role) {
  return role == Role::kConnects ? Role::kListens : Role::kConnects;
}

}  // namespace

Result<Greeter> Greeter::create(Role role, const Secret& secret) {
  Hello hello{kVersion, role, {}};
  TANDEM_TRY(fill_random(hello.nonce));
  return Greeter(role, secret, encode(hello));
}

Greeter::Turn Greeter::begin() {
  return {role_ == Role::kConnects ? std::string(view(our_hello_)) : std::string(), {}};
}

Greeter::Turn Greeter::take(std::string_view message) {
  if (stage_ == Stage::kProof) return take_proof(message);
  stage_ = Stage::kProof;
  return role_ == Role::kListens ? take_hello_of_who_connects(message)
                                 : take_hello_of_who_listens(message);
}

Greeter::Turn Greeter::take_hello_of_who_connects(std::string_view message) {
  const auto hello = parse_hello(message, Role::kConnects);
  // No words for a stranger who does not speak the language.
  if (!hello.ok()) return {{}, hello.error()};
  learn(message, *hello);
  if (hello->version != kVersion)
    return reject(Reason::kOtherVersion, std::string(view(our_hello_)));
  return {std::string(view(our_hello_)), {}};
}

Greeter::Turn Greeter::take_hello_of_who_listens(std::string_view message) {
  if (is_answer(message)) {
    const auto answer = parse_answer(message);
    return {{}, answer.ok() ? refusal_told(answer->reason) : answer.error()};
  }
  const auto hello = parse_hello(message, Role::kListens);
  if (!hello.ok()) return {{}, hello.error()};
  learn(message, *hello);
  if (hello->version != kVersion) return reject(Reason::kOtherVersion);
  return {text(Answer{Reason::kNone, proof(Role::kConnects)}), {}};
}

Greeter::Turn Greeter::take_proof(std::string_view message) {
  const auto answer = parse_answer(message);
  if (!answer.ok()) return {{}, answer.error()};
  if (answer->reason != Reason::kNone) return {{}, refusal_told(answer->reason)};
  const Digest expected = proof(other(role_));
  if (!same_bytes(view(answer->proof), view(expected))) {
    // An impostor who listens took our proof without being able to check it; it gets no more of us.
    return role_ == Role::kListens ? reject(Reason::kWrongSecret)
                                   : Turn{{}, refusal_found(Reason::kWrongSecret, their_version_)};
  }
  if (role_ == Role::kConnects) return {{}, keys()};
  return {text(Answer{Reason::kNone, proof(Role::kListens)}), keys()};
}

Keys Greeter::keys() const {
  const auto key = [&](Role sender) {
    return derive_key(secret_.view(), nonces_, fmt::format("tandem frames {}", to_string(sender)));
  };
  return {key(role_), key(other(role_))};
}

void Greeter::learn(std::string_view their_hello, const Hello& hello) {
  their_version_ = hello.version;
  const std::string_view ours = view(our_hello_);
  hellos_ = role_ == Role::kConnects ? std::string(ours).append(their_hello)
                                     : std::string(their_hello).append(ours);
  constexpr std::size_t kNonceOffset = 8;
  nonces_ = hellos_.substr(kNonceOffset, hello.nonce.size()) +
            hellos_.substr(kHelloBytes + kNonceOffset, hello.nonce.size());
}

Digest Greeter::proof(Role role) const {
  const std::string purpose = fmt::format("tandem proof {}", to_string(role));
  return Mac(derive_key(secret_.view(), nonces_, purpose)).of(hellos_);
}

Greeter::Turn Greeter::reject(Reason reason, std::string before) const {
  return {std::move(before) + text(Answer{reason, {}}), refusal_found(reason, their_version_)};
}

}  // namespace tandem::net
