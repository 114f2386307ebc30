// Where the cluster's secret is, and what follows from it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/secret.h"
#include "options.h"
#include "surroundings.h"

namespace tandem::cli {

// As named; else TANDEM_SECRET; else the user's own place.
Result<std::filesystem::path> secret_path(const std::string& named, const Surroundings& around);

// Nothing when no file was named and there is none.
Result<std::optional<net::Secret>> find_secret(const std::string& named,
                                               const Surroundings& around);
Result<net::Security> find_security(const SecurityOptions& options, const Surroundings& around);

// What HTTP requests carry: everybody who has the secret can make it, and it tells nothing of it.
std::string http_token(const std::optional<net::Secret>& secret);

}  // namespace tandem::cli
