#include "train/ownership.h"

#include <chrono>
#include <thread>

#include "checkpoint/owner.h"

namespace tandem::train {

Status check_ownership(const std::filesystem::path& run, const std::string& owner, Places& places) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kMoment{3000}, kLook{50};
  Status status = checkpoint::check_owner(run, owner);
  for (const Clock::time_point begin = Clock::now(); !status.ok();) {
    if (status.error().code() != Code::kDenied) return {};  // Storage that fails is no new owner.
    if (places.has_next()) return Error(Code::kPeerLost, status.error().message());
    if (Clock::now() - begin > kMoment) return status;
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

}  // namespace tandem::train
