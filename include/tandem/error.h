// What the public interface throws: a kind to branch on, and words for a person that name the rank
// that is to blame, where one is. Plain value.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tandem {

class Failure : public std::runtime_error {
 public:
  enum class Code : std::uint8_t {
    kPeerLost,         // Another rank's process ended, or its connection broke.
    kTimeout,          // The time was up; the other rank may be alive.
    kCorrupt,          // Bytes that fail their checksum or bounds.
    kVersionMismatch,  // Another rank has another version of Tandem.
    kDenied,           // A rank did not prove who it is, or the system refused access.
    kNotFound,         // A name that does not exist.
    kInvalidArgument,  // A call that cannot mean anything, or ranks that call different things.
    kOutOfSpace,       // Memory is full.
    kCancelled,        // An earlier failure made it pointless.
    kDiverged,         // Numbers stopped being finite.
    kInternal,         // A library failed in a way that we do not know better.
  };

  Failure(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}

  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

}  // namespace tandem
