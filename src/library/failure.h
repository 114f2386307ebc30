// From what the folders below return to what the public interface throws.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "tandem/error.h"

namespace tandem::library {

[[noreturn]] void raise(const Error& error);
[[noreturn]] void refuse(const std::string& message);  // kInvalidArgument.

// Throws a Failure unless it is a success.
inline void demand(const Status& status) {
  if (!status.ok()) raise(status.error());
}

template <typename T>
T demand(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

}  // namespace tandem::library
