// The places that a node gives its worker over the control socket, one after another. Belongs to
// one thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "control.h"
#include "train/places.h"

namespace tandem::worker {

class NodePlaces final : public train::Places {
 public:
  // `ready` is called before the first place is awaited: from then on `stop` ends every wait.
  NodePlaces(Control& control, std::string token, const std::atomic<bool>& stop,
             std::function<void()> ready)
      : control_(control), token_(std::move(token)), stop_(stop), ready_(std::move(ready)) {}

  Result<train::Place> next(train::Parting parting, const std::function<void()>& waiting) override;
  bool has_next() override;
  bool may_follow() const override { return true; }
  std::uint64_t generation() const override { return place_.generation(); }

 private:
  Control& control_;
  const std::string token_;
  const std::atomic<bool>& stop_;
  std::function<void()> ready_;
  wire::Place place_;
};

}  // namespace tandem::worker
