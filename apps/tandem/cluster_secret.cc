#include "cluster_secret.h"

#include <fmt/format.h>

#include "net/crypto.h"

namespace tandem::cli {

Result<std::filesystem::path> secret_path(const std::string& named, const Surroundings& around) {
  if (!named.empty()) return std::filesystem::path(named);
  if (const auto value = environment_value(around.environment, "TANDEM_SECRET"))
    return std::filesystem::path(*value);
  if (const auto value = environment_value(around.environment, "XDG_CONFIG_HOME"))
    return std::filesystem::path(*value) / "tandem" / "secret";
  if (const auto value = environment_value(around.environment, "HOME"))
    return std::filesystem::path(*value) / ".config" / "tandem" / "secret";
  return Error(Code::kNotFound, "there is no HOME to look for the secret in; use --secret FILE");
}

Result<std::optional<net::Secret>> find_secret(const std::string& named,
                                               const Surroundings& around) {
  const auto path = secret_path(named, around);
  if (!path.ok()) return std::optional<net::Secret>();
  auto secret = net::load_secret(*path);
  if (secret.ok()) return std::optional(*secret);
  const bool expected =
      !named.empty() || environment_value(around.environment, "TANDEM_SECRET").has_value();
  if (secret.error().code() == Code::kNotFound && !expected) return std::optional<net::Secret>();
  return std::move(secret).error();
}

Result<net::Security> find_security(const SecurityOptions& options, const Surroundings& around) {
  net::Security security;
  TANDEM_ASSIGN(security.secret, find_secret(options.secret, around));
  security.tls = options.tls;
  return security;
}

std::string http_token(const std::optional<net::Secret>& secret) {
  if (!secret) return "";
  std::string token;
  for (const char byte : net::derive_key(secret->view(), "", "tandem http token"))
    token += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return token;
}

}  // namespace tandem::cli
