// The handshake's two messages, both of 40 bytes, little-endian, and the keys that come out of it.
//
//   Hello                                           Answer
//   offset  size  field    meaning                  offset  size  field     meaning
//        0     4  magic    54 44 4e 48, "TDNH"           0     4  magic     54 44 4e 41, "TDNA"
//        4     2  version  the sender's kVersion         4     2  reason    0, or why not: Reason
//        6     2  role     1 connects, 2 listens         6     2  reserved  0
//        8    32  nonce    random, new each time         8    32  proof     zeros when refused
//
// Who connects sends its Hello, who listens answers with its own; then the one who connects sends
// an Answer with its proof, and gets an Answer with the other's proof or with the reason why not.
// Instead of a Hello, too, an Answer may come that says why not. These layouts stay the same in all
// versions, so that different ones can tell each other.
//
// With nonces = nonce of who connects, then nonce of who listens, and the cluster's secret:
//   key(purpose) = HKDF-SHA256(key: secret, salt: nonces, info: purpose)
//   proof        = HMAC-SHA256(key("tandem proof " + role), both Hellos as they were sent)
//   tags         = made with key("tandem frames " + role of the sender), see net/frame.h
// where a role is written "connects" or "listens". As a role has its own keys, neither side's proof
// or frames can be sent back to it; as both choose a nonce, none can be used a second time. Who has
// no secret uses 32 zeros. docs/wire-format.md says the same for readers of other languages.
//
// The parsing here knows neither sockets nor OpenSSL. Plain values, for any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tandem::net {

inline constexpr std::size_t kHelloBytes = 40;
using HelloBytes = std::array<char, kHelloBytes>;

enum class Role : std::uint16_t { kConnects = 1, kListens = 2 };
std::string_view to_string(Role role);

// Why a handshake ends, as the peer is told.
enum class Reason : std::uint16_t {
  kNone = 0,
  kWrongSecret = 1,
  kOtherVersion = 2,
  kTooBusy = 3,
  kOnlyTls = 4,  // In the clear: the one who listens wants TLS.
};

struct Hello {
  std::uint16_t version = 0;
  Role role = Role::kConnects;
  std::array<char, 32> nonce{};
};

struct Answer {
  Reason reason = Reason::kNone;
  std::array<char, 32> proof{};
};

HelloBytes encode(const Hello& hello);
HelloBytes encode(const Answer& answer);

bool is_answer(std::string_view bytes);

// The peer's Hello, whatever its version. kCorrupt when it is none, or of a role that is not
// `role`: somebody sends our own back. REQUIRES: kHelloBytes bytes.
Result<Hello> parse_hello(std::string_view bytes, Role role);

// kCorrupt when it is no Answer. REQUIRES: kHelloBytes bytes.
Result<Answer> parse_answer(std::string_view bytes);

// What a refusal means for a person: told by the peer, or found by this side.
Error refusal_told(Reason reason);
Error refusal_found(Reason reason, std::uint16_t peer_version);

}  // namespace tandem::net
