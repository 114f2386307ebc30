// Whether a worker may still write into its run's directory. Belongs to the worker's thread.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "train/places.h"

namespace tandem::train {

// checkpoint::check_owner(). When the directory has changed hands: kPeerLost for a worker that its
// node still knows, which has a new place by then or gets it in a moment; kDenied for one that was
// given up.
Status check_ownership(const std::filesystem::path& run, const std::string& owner, Places& places);

}  // namespace tandem::train
