// Who may ask what: reads from this machine need nothing, everything else the cluster's token.
// Tokenless reads are also what a page in the user's browser could ask for, so they are refused
// when the Host header shows that a foreign name was made to point here (DNS rebinding). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "web/reply.h"

namespace tandem::web {

enum class Peer : std::uint8_t { kLoopback, kRemote };

struct AccessRules {
  std::string token;                    // "": nobody may do more than read from this machine.
  std::vector<std::string> host_names;  // Besides IP addresses and localhost.
};

// What of a request decides about access.
struct Claim {
  std::string_view method;
  std::string_view authorization;  // The header; "" when there is none.
  std::string_view host;
  Peer peer = Peer::kRemote;
};

// Nothing when the request may go on, or the refusal.
std::optional<Reply> refuse(const AccessRules& rules, const Claim& claim);

// Takes as long for every `given` of one length, so that a token cannot be guessed byte by byte.
bool same_token(std::string_view given, std::string_view token);

// Whether `address` (an IP, or localhost) can be reached from this machine only.
bool is_loopback(std::string_view address);

}  // namespace tandem::web
