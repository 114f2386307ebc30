// The engine for ranks on several machines: TCP connections between all of them, by Gloo.
//
// Beside the calling thread an engine has two: Gloo's event loop, and a watch (gloo_watch.h) that
// notices within milliseconds when any member ends, and tells the others why before it closes.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "collective/engine.h"
#include "collective/store.h"

namespace tandem::collective {

struct GlooOptions {
  Membership membership;
  // Where the ranks find each other; used only while the engine is made. Not needed by a group of
  // one.
  StoreClient* store = nullptr;
  std::string prefix;  // Of the keys; another for every generation.
  std::string
      bind_address;   // Name or IP to listen on; empty: the address that routes to the store.
  Deadline deadline;  // For all ranks to be there.
  Abandoned abandoned = {};
};

// Connects to every other rank; all have to call it. Makes the process ignore SIGPIPE if that still
// ends it, because Gloo's writes to a dead peer raise it. Nothing of a peer is authenticated beyond
// the store's token: the network between the workers must be trusted.
//
// kTimeout when a rank has not come, kPeerLost when one went away again; both name it. kPeerLost
// also when abandoned() says so before all are connected.
Result<std::unique_ptr<Engine>> make_gloo_engine(GlooOptions options);

}  // namespace tandem::collective
