#include "web/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "web/ascii.h"

namespace tandem::web {
namespace {

constexpr std::string_view kScheme = "Bearer ";

// "[::1]:80" -> "::1"; "host:80" -> "host"; "::1" -> "::1".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  const std::size_t colon = host.find(':');
  return colon != host.rfind(':') ? host : host.substr(0, colon);
}

bool is_ip(const std::string& text) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, text.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &ignored) == 1;
}

bool is_own_name(const AccessRules& rules, std::string_view host) {
  std::string name = ascii_lower(without_port(host));
  if (name.ends_with('.')) name.pop_back();
  if (name == "localhost" || is_ip(name)) return true;
  return std::any_of(rules.host_names.begin(), rules.host_names.end(),
                     [&](const std::string& own) { return ascii_lower(own) == name; });
}

Reply unauthorized(std::string message) {
  Reply reply = error_reply({.status = 401,
                             .code = to_string(Code::kDenied),
                             .message = std::move(message),
                             .hint = "send the header `Authorization: Bearer TOKEN` with the "
                                     "token that `tandem master --init` made"});
  reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace

bool same_token(std::string_view given, std::string_view token) {
  if (token.empty()) return false;
  volatile unsigned char difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference = static_cast<unsigned char>(difference |
                                            (static_cast<unsigned char>(given[i]) ^
                                             static_cast<unsigned char>(token[i % token.size()])));
  }
  return difference == 0;
}

bool is_loopback(std::string_view address) {
  const std::string text(address);
  if (ascii_lower(address) == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

std::optional<Reply> refuse(const AccessRules& rules, const Claim& claim) {
  const bool is_read = claim.method == "GET" || claim.method == "HEAD";
  if (!claim.authorization.empty()) {
    const bool has_scheme =
        claim.authorization.size() >= kScheme.size() &&
        ascii_lower(claim.authorization.substr(0, kScheme.size())) == ascii_lower(kScheme);
    if (!has_scheme) return unauthorized("the Authorization header is not a bearer token");
    if (same_token(claim.authorization.substr(kScheme.size()), rules.token)) return std::nullopt;
    return unauthorized("the token is wrong");
  }
  if (!is_read || claim.peer != Peer::kLoopback) {
    if (rules.token.empty()) {
      return error_reply({.status = 403,
                          .code = to_string(Code::kDenied),
                          .message = "this master has no token, so it can only be read",
                          .hint = "make one with `tandem master --init` and start it again"});
    }
    return unauthorized(is_read ? "reading from another machine needs a token"
                                : "changing anything needs a token");
  }
  if (!claim.host.empty() && !is_own_name(rules, claim.host)) {
    return error_reply(
        {.status = 403,
         .code = to_string(Code::kDenied),
         .message = fmt::format("{} is not a name of this machine", claim.host),
         .hint = "ask by IP address, as localhost or by this machine's name, or send the token"});
  }
  return std::nullopt;
}

}  // namespace tandem::web
