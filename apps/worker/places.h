// The places that a node gives its worker over the control socket, one after another. Belongs to
// one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control.h"
#include "net/tls.h"
#include "train/places.h"

namespace tandem::worker {

class NodePlaces final : public train::Places {
 public:
  // `ready` is called before the first place is awaited: from then on `stop` ends every wait.
  NodePlaces(Control& control, std::string token, std::shared_ptr<const net::Tls> tls,
             const std::atomic<bool>& stop, std::function<void()> ready)
      : control_(control),
        token_(std::move(token)),
        tls_(std::move(tls)),
        stop_(stop),
        ready_(std::move(ready)) {}

  Result<train::Place> next(train::Parting parting, const std::function<void()>& waiting) override;
  bool has_next() override;
  bool may_follow() const override { return true; }
  std::uint64_t generation() const override { return place_.generation(); }

 private:
  // Whether this worker shall end and has waited for its next group as long as it may: what it
  // alone may have is saved there.
  bool has_waited();

  Control& control_;
  const std::string token_;
  const std::shared_ptr<const net::Tls> tls_;  // For parameter servers.
  const std::atomic<bool>& stop_;
  std::function<void()> ready_;
  wire::Place place_;
  std::optional<std::chrono::steady_clock::time_point> asked_;  // When it saw that it shall end.
};

}  // namespace tandem::worker
