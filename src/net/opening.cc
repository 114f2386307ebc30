#include "net/opening.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "net/hello.h"

namespace tandem::net {
namespace {

// How a greeting in the clear and a handshake of TLS begin.
constexpr char kHelloByte = 'T', kTlsByte = 0x16;
// A fatal alert of TLS: protocol_version. So who speaks TLS understands that nobody else does.
constexpr std::string_view kNoTls("\x15\x03\x03\x00\x02\x02\x46", 7);

// What the peer has sent is taken first: unread, it would turn the close that follows into a reset,
// which may overtake the word.
void say(int socket, std::string_view word) {
  std::array<char, 4096> unread;
  (void)::recv(socket, unread.data(), unread.size(), MSG_DONTWAIT);
  (void)::send(socket, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Result<bool> look_at_opening(int socket, Language ours) {
  char first = 0;
  const ssize_t got = ::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got < 0) return Error(Code::kPeerLost, std::strerror(errno));
  if (got == 0) return Error(Code::kPeerLost, "the peer closed the connection");
  if (ours == Language::kTls && first == kHelloByte) {
    const HelloBytes answer = encode(Answer{Reason::kOnlyTls, {}});
    say(socket, {answer.data(), answer.size()});
    return refusal_found(Reason::kOnlyTls, 0);
  }
  if (ours == Language::kClear && first == kTlsByte) {
    say(socket, kNoTls);
    return Error(Code::kDenied, "the peer wants TLS, and this side has no certificate");
  }
  return true;
}

}  // namespace tandem::net
