// What a fallible call returns when another machine, the disk or the user can make it fail: Status,
// or Result<T> when there is a value. A broken invariant is not an Error: see base/check.h. Callers
// branch on code(); nobody parses message().
//
// Values of these types belong to one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace tandem {

enum class Code : std::uint8_t {
  kPeerLost,         // The other end closed or reset, or its process ended.
  kTimeout,          // The deadline passed; the peer may be alive.
  kCorrupt,          // Whole bytes that fail their checksum or bounds.
  kVersionMismatch,  // The peer or file speaks another version.
  kDenied,           // The peer did not prove who it is, or the system refused access.
  kNotFound,         // A file, key or name that does not exist.
  kInvalidArgument,  // From a flag, a job file or a request; never from code.
  kOutOfSpace,       // The disk or the memory is full.
  kCancelled,        // The user asked for it to end.
  kDiverged,         // Training produced NaN or infinity.
  kInternal,         // A library's exception, translated.
};

// The name used in reports and logs: "peer_lost", "timeout", ...
std::string_view to_string(Code code);

// What `tandem` exits with when `code` ended it. 0 is success; 1 is left to crashes and unknown
// failures.
int exit_code(Code code);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Adds what the caller was doing; reads outermost first:
  // "step 812: reduce bucket 3: receive from worker 2: connection reset".
  Error within(std::string_view doing) &&;

 private:
  Code code_;
  std::string message_;
};

// An Error for a failed system call, with its code taken from `error_number` and its text behind
// `doing`.
Error system_error(std::string_view doing, int error_number);

class [[nodiscard]] Status {
 public:
  Status() = default;  // Success.
  Status(Error error)
      : error_(std::move(error)) {}  // NOLINT: implicit, so that `return Error(...)` works.

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // REQUIRES: !ok().
  const Error& error() const& {
    TANDEM_CHECK(error_.has_value());
    return *error_;
  }
  Error&& error() && {
    TANDEM_CHECK(error_.has_value());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit.

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // REQUIRES: ok().
  T& value() & {
    TANDEM_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    TANDEM_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    TANDEM_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  // REQUIRES: !ok().
  const Error& error() const& {
    TANDEM_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    TANDEM_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

}  // namespace tandem

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// Returns the Error of a failed Status to the caller.
#define TANDEM_TRY(expression)                                  \
  do {                                                          \
    if (auto tandem_status = (expression); !tandem_status.ok()) \
      return std::move(tandem_status).error();                  \
  } while (false)

// TANDEM_ASSIGN(auto file, open(path)): declares or assigns the value, or returns the Error to the
// caller.
#define TANDEM_ASSIGN(target, expression) \
  TANDEM_ASSIGN_INNER(TANDEM_CONCAT(tandem_result_, __LINE__), target, expression)
#define TANDEM_ASSIGN_INNER(result, target, expression) \
  auto result = (expression);                           \
  if (!result.ok()) return std::move(result).error();   \
  target = std::move(result).value()
