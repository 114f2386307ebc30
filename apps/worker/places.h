// The places that a node gives its worker over the control socket, one after another. Belongs to
// one thread, which alone reads from the socket.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "train/places.h"
#include "wire/frame.h"

namespace tandem::worker {

class NodePlaces final : public train::Places {
 public:
  // `ready` is called before the first place is awaited: from then on `stop` ends every wait.
  NodePlaces(int control, std::string token, const std::atomic<bool>& stop,
             std::function<void()> ready)
      : control_(control), token_(std::move(token)), stop_(stop), ready_(std::move(ready)) {}

  Result<train::Place> next(train::Parting parting, const std::function<void()>& waiting) override;
  bool has_next() override;
  bool may_follow() const override { return true; }
  std::uint64_t generation() const override { return place_.generation(); }

 private:
  // Takes what the node says, for at most so long.
  Status listen(std::chrono::milliseconds at_most);
  Status take_messages();

  const int control_;
  const std::string token_;
  const std::atomic<bool>& stop_;
  std::function<void()> ready_;
  wire::FrameReader frames_;
  std::optional<wire::Place> next_;
  wire::Place place_;
};

}  // namespace tandem::worker
