// TANDEM_CHECK ends the process when something that only our own bug can cause has happened. It is
// always on. What another machine, the disk or the user can cause is an Error instead: see
// base/result.h.
#pragma once

namespace tandem {

// Prints what failed and where, then aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace tandem

#define TANDEM_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::tandem::check_failed(#expression, __FILE__, __LINE__))
