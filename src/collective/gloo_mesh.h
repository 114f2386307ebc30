// Connects the ranks of a group with Gloo: two TCP connections for each pair. Used by
// gloo_engine.cc.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "base/result.h"
#include "collective/gloo_engine.h"

namespace tandem::collective {

struct GlooMesh {
  std::shared_ptr<::gloo::Context> data;
  // For the watch, whose words would wait behind megabytes of data otherwise, and so would the news
  // that a rank is gone.
  std::shared_ptr<::gloo::Context> control;
};

// REQUIRES: at least two members and a store.
Result<GlooMesh> connect_gloo_mesh(const GlooOptions& options);

}  // namespace tandem::collective
