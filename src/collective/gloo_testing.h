// What the tests of the Gloo engine share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "collective/gloo_engine.h"
#include "collective/store.h"

namespace tandem::collective::gloo_testing {

using namespace std::chrono_literals;

inline Membership members(int rank, int size) {
  Membership membership;
  membership.rank = rank;
  membership.members.assign(static_cast<std::size_t>(size), Member{"here", 1});
  return membership;
}

inline Result<std::unique_ptr<Engine>> join(int rank, int size, std::uint16_t port) {
  TANDEM_ASSIGN(const auto store,
                StoreClient::connect("127.0.0.1", port, "secret", deadline_after(5s)));
  return make_gloo_engine({members(rank, size), store.get(), "g1", "", deadline_after(5s)});
}

inline std::unique_ptr<StoreServer> start_store() {
  auto server = StoreServer::start("127.0.0.1", 0, "secret");
  EXPECT_TRUE(server.ok());
  return std::move(server).value();
}

// Everyone sends to everyone.
inline Status exchange_all(Engine& engine, std::vector<std::vector<std::byte>>& out,
                           std::vector<std::vector<std::byte>>& in, Deadline deadline) {
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < engine.membership().size(); ++peer) {
    if (peer == engine.membership().rank) continue;
    sends.push_back({peer, out[static_cast<std::size_t>(peer)]});
    receives.push_back({peer, in[static_cast<std::size_t>(peer)]});
  }
  return engine.exchange(sends, receives, deadline);
}

}  // namespace tandem::collective::gloo_testing
