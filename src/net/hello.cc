#include "net/hello.h"

#include <fmt/format.h>

#include <cstring>

#include "net/bytes.h"
#include "net/frame.h"

namespace tandem::net {
namespace {

constexpr std::uint32_t kHelloMagic = 0x484e4454;   // "TDNH" when written little-endian.
constexpr std::uint32_t kAnswerMagic = 0x414e4454;  // "TDNA"

HelloBytes encode(std::uint32_t magic, std::uint16_t first, std::uint16_t second,
                  const std::array<char, 32>& rest) {
  HelloBytes bytes{};
  put(bytes.data(), magic);
  put(bytes.data() + 4, first);
  put(bytes.data() + 6, second);
  std::memcpy(bytes.data() + 8, rest.data(), rest.size());
  return bytes;
}

}  // namespace

std::string_view to_string(Role role) {
  return role == Role::kConnects ? "connects" : "listens";
}

HelloBytes encode(const Hello& hello) {
  return encode(kHelloMagic, hello.version, static_cast<std::uint16_t>(hello.role), hello.nonce);
}

HelloBytes encode(const Answer& answer) {
  return encode(kAnswerMagic, static_cast<std::uint16_t>(answer.reason), 0, answer.proof);
}

bool is_answer(std::string_view bytes) {
  return bytes.size() == kHelloBytes && take<std::uint32_t>(bytes.data()) == kAnswerMagic;
}

Result<Hello> parse_hello(std::string_view bytes, Role role) {
  TANDEM_CHECK(bytes.size() == kHelloBytes);
  if (take<std::uint32_t>(bytes.data()) != kHelloMagic) {
    return Error(Code::kCorrupt,
                 "the peer is not a Tandem program: what it sent is no greeting of one");
  }
  Hello hello;
  hello.version = take<std::uint16_t>(bytes.data() + 4);
  if (take<std::uint16_t>(bytes.data() + 6) != static_cast<std::uint16_t>(role)) {
    return Error(Code::kCorrupt,
                 fmt::format("the peer's greeting is not that of one who {}", to_string(role)));
  }
  hello.role = role;
  std::memcpy(hello.nonce.data(), bytes.data() + 8, hello.nonce.size());
  return hello;
}

Result<Answer> parse_answer(std::string_view bytes) {
  TANDEM_CHECK(bytes.size() == kHelloBytes);
  const auto reason = take<std::uint16_t>(bytes.data() + 4);
  if (!is_answer(bytes) || take<std::uint16_t>(bytes.data() + 6) != 0 ||
      reason > static_cast<std::uint16_t>(Reason::kOnlyTls)) {
    return Error(Code::kCorrupt, "the peer's answer to the greeting makes no sense");
  }
  Answer answer;
  answer.reason = static_cast<Reason>(reason);
  std::memcpy(answer.proof.data(), bytes.data() + 8, answer.proof.size());
  return answer;
}

Error refusal_told(Reason reason) {
  switch (reason) {
    case Reason::kWrongSecret:
      return Error(Code::kDenied,
                   "the peer says that this side does not have the cluster's secret; copy the "
                   "master's (~/.config/tandem/secret, or what its --secret names) to the same "
                   "place here, or name the file with --secret");
    case Reason::kOtherVersion:
      return Error(Code::kVersionMismatch,
                   fmt::format("the peer does not speak version {} of the protocol; use binaries "
                               "of one build",
                               kVersion));
    case Reason::kTooBusy:
      return Error(Code::kPeerLost, "the peer is too busy with others who try to connect");
    case Reason::kOnlyTls:
      return Error(Code::kDenied,
                   "the peer uses TLS and this side does not; give this side a certificate too "
                   "(--tls-cert, --tls-key, --tls-ca)");
    case Reason::kNone:
      break;
  }
  return Error(Code::kCorrupt, "the peer's answer came where a greeting was due");
}

Error refusal_found(Reason reason, std::uint16_t peer_version) {
  switch (reason) {
    case Reason::kWrongSecret:
      return Error(Code::kDenied, "the peer does not know this cluster's secret");
    case Reason::kOtherVersion:
      return Error(Code::kVersionMismatch,
                   fmt::format("the peer speaks version {} of the protocol, this program version "
                               "{}; use binaries of one build",
                               peer_version, kVersion));
    case Reason::kTooBusy:
      return Error(Code::kPeerLost, "too many others try to connect at the same time");
    case Reason::kOnlyTls:
      return Error(Code::kDenied, "the peer does not use TLS, and this side does");
    case Reason::kNone:
      break;
  }
  return Error(Code::kInternal, "no reason");
}

}  // namespace tandem::net
