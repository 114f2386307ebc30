// The cluster's secret: 32 random bytes that every node and client holds, and that nobody sends.
// Who knows it may join; who does not gets no further than the handshake (net/handshake.h). Plain
// functions and values, for any thread.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace tandem::net {

struct Secret {
  std::array<char, 32> bytes{};

  std::string_view view() const { return {bytes.data(), bytes.size()}; }
  friend bool operator==(const Secret&, const Secret&) = default;
};

// A new secret from the system's generator.
Result<Secret> make_secret();

// Writes the secret as 64 hexadecimal digits, for its owner's eyes only (mode 0600).
// kInvalidArgument when the file exists: a cluster whose secret is replaced falls apart.
Status save_secret(const std::filesystem::path& path, const Secret& secret);

// kDenied when others than the owner may read or write the file, kNotFound when there is none,
// kCorrupt when it holds anything else than a secret.
Result<Secret> load_secret(const std::filesystem::path& path);

// Files in PEM format, given together or not at all: what this side shows to a peer, and who must
// have signed what the peer shows (net/tls.h).
struct TlsFiles {
  std::filesystem::path cert_file;
  std::filesystem::path key_file;
  std::filesystem::path ca_file;
};

// What a Listener or Link proves itself and its peer with. Without a secret it works on loopback
// addresses only. With certificates everything travels inside TLS 1.3.
struct Security {
  std::optional<Secret> secret;
  TlsFiles tls;
};

}  // namespace tandem::net
