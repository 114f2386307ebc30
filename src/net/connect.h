// Looks a name up and connects to it, without blocking the loop. Used by net/link.h; belongs to the
// thread of its Loop.
#pragma once

#include <functional>
#include <memory>

#include "base/descriptor.h"
#include "base/result.h"
#include "net/address.h"
#include "net/loop.h"

namespace tandem::net {

enum class Reach {
  kAnywhere,
  kLoopback,  // kDenied when the name means another host.
};

// An attempt under way. Destroying it gives it up: the callback does not come any more.
class Connecting {
 public:
  using Done = std::function<void(Result<Descriptor>)>;
  class State;

  Connecting() = default;
  // Tries the name's addresses one after the other. There is no deadline here: who waits has one.
  Connecting(Loop& loop, const Endpoint& endpoint, Reach reach, Done done);
  Connecting(Connecting&& other) noexcept = default;
  Connecting& operator=(Connecting&& other) noexcept;
  ~Connecting() { cancel(); }

  void cancel();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace tandem::net
