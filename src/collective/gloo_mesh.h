// Connects the ranks of a group with Gloo: one TCP connection for each pair. Used by
// gloo_engine.cc.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "base/result.h"
#include "collective/gloo_engine.h"

namespace tandem::collective {

// REQUIRES: at least two members and a store.
Result<std::shared_ptr<::gloo::Context>> connect_gloo_mesh(const GlooOptions& options);

}  // namespace tandem::collective
